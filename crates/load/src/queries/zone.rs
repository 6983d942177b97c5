//! Queries drawn from a zone file: names that are there, names below its cuts, names that are not there.

use std::collections::{BTreeMap, HashSet};

use wire::{Class, Name, NameRef, Rtype};
use zone::text::{self, Record, Sink, Source};
use zone::{Diagnostic, Severity};

use super::{Dress, Queries, Renderer};
use crate::random::Random;

/// How queries are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// How many.
    pub count: usize,
    /// The share of names that do not exist.
    pub nxdomain: f64,
    /// The share of names below zone cuts.
    pub referral: f64,
    /// Types by weight, each asked for at names that have it; without any, every RRset is as likely.
    pub types: Vec<(Rtype, f64)>,
    /// How the popularity of a name falls with its rank: rank to the power of minus this; 0 for all alike.
    pub zipf: f64,
    /// Where the draw begins.
    pub seed: u64,
}

/// The mix of types of the published Windows DNS Server measurements: 60, 20, 10, 4, 3, 3 percent.
pub const WINDOWS_MIX: [(Rtype, f64); 6] =
    [(Rtype::A, 60.0), (Rtype::CNAME, 20.0), (Rtype::SRV, 10.0), (Rtype::MX, 4.0), (Rtype::TXT, 3.0), (Rtype::NS, 3.0)];

/// Why nothing can be drawn.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// The zone cannot be read; the first error in it.
    #[error("{0}")]
    Zone(Box<Diagnostic>),
    /// The zone has nothing of what is wanted.
    #[error("{file}: the zone has no {what}")]
    Missing {
        /// The zone file.
        file: String,
        /// What it has none of.
        what: String,
    },
}

/// Reads zone text and draws queries from it. The names asked for are in random order of popularity.
pub fn draw(source: Source<'_>, apex: NameRef<'_>, recipe: &Recipe, dress: &Dress) -> Result<Queries, DrawError> {
    let file = source.name.to_string();
    let contents = Contents::read(source, apex)?;
    let missing = |what: String| DrawError::Missing { file: file.clone(), what };
    let mut random = Random::new(recipe.seed);
    let mut renderer = Renderer::new(dress);
    let existing = Existing::new(&contents, recipe, &mut random).map_err(missing)?;
    let cuts = match recipe.referral > 0.0 {
        true => Some(
            Popularity::new(contents.cuts.clone(), recipe.zipf, &mut random)
                .ok_or_else(|| missing("zone cut".into()))?,
        ),
        false => None,
    };
    for _ in 0..recipe.count {
        let lot = random.unit();
        match &cuts {
            _ if lot < recipe.nxdomain => {
                let name =
                    prefixed(&format!("nx{:012x}", random.bits() >> 16), apex).unwrap_or_else(|| apex.to_owned());
                renderer.ask(name.as_ref(), existing.draw_type(&mut random), Class::IN);
            }
            Some(cuts) if lot < recipe.nxdomain + recipe.referral => {
                let cut = contents.name(*cuts.draw(&mut random));
                let below = prefixed("www", cut).unwrap_or_else(|| cut.to_owned());
                renderer.ask(below.as_ref(), Rtype::A, Class::IN);
            }
            _ => {
                let (start, rtype) = existing.draw(&mut random);
                renderer.ask(contents.name(start), rtype, Class::IN);
            }
        }
    }
    Ok(renderer.finish())
}

/// A name with a label before it; `None` where that is too long.
fn prefixed(label: &str, name: NameRef<'_>) -> Option<Name> {
    Name::from_wire(&[&[label.len() as u8], label.as_bytes(), name.wire()].concat()).ok()
}

//----------- what can be asked ------------------------------------------------

/// The RRsets of a zone that it answers for, and its cuts, as places of names.
struct Contents {
    names: Vec<u8>,
    rrsets: Vec<(u32, Rtype)>,
    cuts: Vec<u32>,
}

impl Contents {
    fn read(source: Source<'_>, apex: NameRef<'_>) -> Result<Contents, DrawError> {
        let parsed = text::parse(source, &text::Options::new(apex), Collector::default);
        if let Some(error) = parsed.diagnostics.into_iter().find(|found| found.severity == Severity::Error) {
            return Err(DrawError::Zone(Box::new(error)));
        }
        let mut whole = Collector::default();
        for sink in parsed.sinks {
            let offset = whole.names.len() as u32;
            whole.names.extend_from_slice(&sink.names);
            whole.rrsets.extend(sink.rrsets.into_iter().map(|(start, rtype)| (start + offset, rtype)));
        }
        Ok(whole.without_occluded(apex))
    }

    fn name(&self, start: u32) -> NameRef<'_> {
        NameRef::from_wire(&self.names[start as usize..]).expect("written by the collector")
    }
}

#[derive(Default)]
struct Collector {
    /// Names in wire form, one behind the other.
    names: Vec<u8>,
    /// RRsets: where the owner stands, and the type. The same one again only where its records stand apart in the text.
    rrsets: Vec<(u32, Rtype)>,
    last: Option<u32>,
}

impl Sink for Collector {
    fn record(&mut self, record: Record<'_>) {
        // Signatures and denial are not asked for by name.
        if matches!(record.rtype, Rtype::RRSIG | Rtype::NSEC3) {
            return;
        }
        let known = self.last.filter(|&start| self.names[start as usize..].eq_ignore_ascii_case(record.owner.wire()));
        let start = known.unwrap_or_else(|| {
            let start = self.names.len() as u32;
            self.names.extend_from_slice(record.owner.wire());
            start
        });
        if self.rrsets.last() != Some(&(start, record.rtype)) {
            self.rrsets.push((start, record.rtype));
        }
        self.last = Some(start);
    }
}

impl Collector {
    /// Leaves out what is at or below a zone cut, which the zone does not answer for (RFC 1034 4.2.1), and wildcards.
    fn without_occluded(self, apex: NameRef<'_>) -> Contents {
        let mut contents = Contents { names: self.names, rrsets: self.rrsets, cuts: Vec::new() };
        let lowered = |name: NameRef<'_>| name.wire().to_ascii_lowercase();
        let is_cut = |name: NameRef<'_>, rtype: Rtype| rtype == Rtype::NS && name != apex;
        let cuts: HashSet<Vec<u8>> = contents
            .rrsets
            .iter()
            .map(|&(start, rtype)| (contents.name(start), rtype))
            .filter(|&(name, rtype)| is_cut(name, rtype))
            .map(|(name, _)| lowered(name))
            .collect();
        let is_below_cut = |name: NameRef<'_>| {
            std::iter::successors(Some(name), |name| name.parent())
                .take_while(|&ancestor| ancestor != apex)
                .any(|ancestor| cuts.contains(&lowered(ancestor)))
        };
        let (mut answered, mut tops) = (Vec::new(), Vec::new());
        for &(start, rtype) in &contents.rrsets {
            let name = contents.name(start);
            if is_cut(name, rtype) && !name.parent().is_some_and(is_below_cut) {
                tops.push(start);
            } else if !name.is_wildcard() && !is_below_cut(name) {
                answered.push((start, rtype));
            }
        }
        (contents.rrsets, contents.cuts) = (answered, tops);
        contents
    }
}

//----------- drawing ----------------------------------------------------------

/// The RRsets that can be asked for, all in one or by type.
struct Existing {
    /// The sum of the weights up to and with each type, and its RRsets.
    groups: Vec<(f64, Popularity<(u32, Rtype)>)>,
}

impl Existing {
    /// The error is what the zone has none of.
    fn new(contents: &Contents, recipe: &Recipe, random: &mut Random) -> Result<Existing, String> {
        let mut groups = Vec::new();
        let mut sum = 0.0;
        let mut push = |weight: f64, rrsets: Vec<(u32, Rtype)>, what: String| -> Result<(), String> {
            sum += weight;
            let group = Popularity::new(rrsets, recipe.zipf, random).ok_or(what)?;
            groups.push((sum, group));
            Ok(())
        };
        if recipe.types.is_empty() {
            push(1.0, contents.rrsets.clone(), "record of its own".into())?;
        }
        let mut by_type = BTreeMap::<Rtype, Vec<(u32, Rtype)>>::new();
        for &rrset in contents.rrsets.iter().filter(|_| !recipe.types.is_empty()) {
            by_type.entry(rrset.1).or_default().push(rrset);
        }
        for &(rtype, weight) in &recipe.types {
            push(weight, by_type.get(&rtype).cloned().unwrap_or_default(), format!("{rtype} record"))?;
        }
        Ok(Existing { groups })
    }

    fn draw(&self, random: &mut Random) -> (u32, Rtype) {
        let lot = random.unit() * self.groups.last().map_or(0.0, |(sum, _)| *sum);
        let group = self.groups.partition_point(|(sum, _)| *sum <= lot).min(self.groups.len() - 1);
        *self.groups[group].1.draw(random)
    }

    fn draw_type(&self, random: &mut Random) -> Rtype {
        self.draw(random).1
    }
}

/// Things in the order of their popularity.
struct Popularity<T> {
    ranked: Vec<T>,
    /// The sum of the popularities up to and with each rank; empty where all are alike.
    sums: Vec<f64>,
}

impl<T> Popularity<T> {
    /// Ranks things at random; `None` where there are none.
    fn new(mut things: Vec<T>, zipf: f64, random: &mut Random) -> Option<Popularity<T>> {
        if things.is_empty() {
            return None;
        }
        for index in (1..things.len()).rev() {
            things.swap(index, random.below(index + 1));
        }
        let mut sum = 0.0;
        let ranks = if zipf > 0.0 { things.len() } else { 0 };
        let sums = (1..=ranks).map(|rank| {
            sum += (rank as f64).powf(-zipf);
            sum
        });
        Some(Popularity { sums: sums.collect(), ranked: things })
    }

    fn draw(&self, random: &mut Random) -> &T {
        let rank = match self.sums.last() {
            None => random.below(self.ranked.len()),
            Some(total) => {
                let lot = random.unit() * total;
                self.sums.partition_point(|&sum| sum <= lot)
            }
        };
        &self.ranked[rank.min(self.ranked.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const ZONE: &str = "$ORIGIN example.\n$TTL 60\n\
        @ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\nwww AAAA 2001:db8::1\n\
        mail MX 10 www\n* TXT wild\nalias CNAME www\n\
        sub NS ns.sub\nns.sub A 192.0.2.3\ndeep.sub NS elsewhere.\nother NS ns\n";

    fn drawn(recipe: &Recipe) -> Result<HashMap<String, usize>, DrawError> {
        let apex: Name = "example".parse().expect("a literal");
        let source = Source { name: "test".into(), bytes: ZONE.as_bytes() };
        let queries = draw(source, apex.as_ref(), recipe, &Dress::default())?;
        let mut counts = HashMap::new();
        for number in 0..queries.len() as u32 {
            *counts.entry(queries.describe(number)).or_default() += 1;
        }
        Ok(counts)
    }

    fn recipe() -> Recipe {
        Recipe { count: 10_000, nxdomain: 0.0, referral: 0.0, types: Vec::new(), zipf: 0.0, seed: 1 }
    }

    #[test]
    fn what_the_zone_answers_for_is_asked_evenly() {
        let counts = drawn(&recipe()).expect("there is something");
        let mut names: Vec<_> = counts.keys().map(String::as_str).collect();
        names.sort_unstable();
        let expected = [
            "alias.example. CNAME",
            "example. NS",
            "example. SOA",
            "mail.example. MX",
            "ns.example. A",
            "www.example. A",
            "www.example. AAAA",
        ];
        assert_eq!(names, expected);
        assert!(counts.values().all(|count| (1200..1700).contains(count)), "{counts:?}");
    }

    #[test]
    fn shares_are_kept() {
        let recipe = Recipe { nxdomain: 0.4, referral: 0.3, ..recipe() };
        let counts = drawn(&recipe).expect("there is something");
        let sum = |filter: &dyn Fn(&str) -> bool| {
            counts.iter().filter(|(name, _)| filter(name)).map(|(_, count)| count).sum::<usize>()
        };
        assert!((3800..4200).contains(&sum(&|name| name.starts_with("nx"))));
        assert!(
            (1350..1650).contains(&counts["www.sub.example. A"])
                && (1350..1650).contains(&counts["www.other.example. A"])
        );
        assert_eq!(sum(&|name| name.contains("deep")), 0, "a cut below a cut is no cut of this zone");
    }

    #[test]
    fn types_are_drawn_by_weight_and_must_be_there() {
        let types = vec![(Rtype::A, 60.0), (Rtype::MX, 40.0)];
        let counts = drawn(&Recipe { types, ..recipe() }).expect("there is something");
        assert!((3800..4200).contains(&counts["mail.example. MX"]), "{counts:?}");
        assert_eq!(counts.len(), 3);
        let error = drawn(&Recipe { types: WINDOWS_MIX.to_vec(), ..recipe() }).expect_err("no SRV");
        assert_eq!(error.to_string(), "test: the zone has no SRV record");
    }

    #[test]
    fn popularity_falls_with_the_rank() {
        let counts = drawn(&Recipe { zipf: 1.0, ..recipe() }).expect("there is something");
        let mut counts: Vec<_> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // 1/1 + ... + 1/7 = 2.593: the first has 38.6 %, the second half of it.
        assert!((3700..4000).contains(&counts[0]) && (1800..2100).contains(&counts[1]), "{counts:?}");
    }
}
