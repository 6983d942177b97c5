//! Queries sampled from a zone file: for existing RRsets, below zone cuts, and for names that do not exist.

use std::collections::{BTreeMap, HashSet};

use wire::{Class, Name, NameRef, Rtype};
use zone::text::{self, RecordSink, Source, ZoneRecord};
use zone::{Finding, Severity};

use super::{Queries, QueryEncoder, QueryTemplate};
use fastrand::Rng;

/// The mix of queries to sample.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryMix {
    /// The number of queries.
    pub count: usize,
    /// The share of names that do not exist.
    pub nxdomain: f64,
    /// The share of names below zone cuts.
    pub referral: f64,
    /// Query types with weights, each for names that have the type; if empty, all RRsets are equally likely.
    pub types: Vec<(Rtype, f64)>,
    /// The exponent of the Zipf distribution of names: popularity is rank to the power of minus this; 0 for uniform.
    pub zipf: f64,
    /// The seed.
    pub seed: u64,
}

/// The type mix of Microsoft's published DNS server measurements, in percent.
pub const WINDOWS_MIX: [(Rtype, f64); 6] =
    [(Rtype::A, 60.0), (Rtype::CNAME, 20.0), (Rtype::SRV, 10.0), (Rtype::MX, 4.0), (Rtype::TXT, 3.0), (Rtype::NS, 3.0)];

/// Why nothing can be sampled.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The first error in the zone file.
    #[error("{0}")]
    Zone(Box<Finding>),
    /// The zone lacks something that the mix asks for.
    #[error("{file}: the zone has no {what}")]
    Missing {
        /// The zone file.
        file: String,
        /// What it lacks.
        what: String,
    },
}

/// Reads a zone file and samples queries from it. Names are ranked by popularity at random.
pub fn sample(
    source: Source<'_>,
    apex: NameRef<'_>,
    mix: &QueryMix,
    template: &QueryTemplate,
) -> Result<Queries, SampleError> {
    let file = source.name.to_string();
    let contents = ZoneContents::read(source, apex)?;
    let missing = |what: String| SampleError::Missing { file: file.clone(), what };
    let mut random = Rng::with_seed(mix.seed);
    let mut encoder = QueryEncoder::new(template);
    let existing = RrsetSampler::new(&contents, mix, &mut random).map_err(missing)?;
    let mut cuts = || ZipfSampler::new(contents.cuts.clone(), mix.zipf, &mut random);
    let cuts = (mix.referral > 0.0).then(|| cuts().ok_or_else(|| missing("zone cut".into()))).transpose()?;
    for _ in 0..mix.count {
        let draw = random.f64();
        match &cuts {
            _ if draw < mix.nxdomain => {
                let label = format!("nx{:012x}", random.u64(..) >> 16);
                let name = prepend(&label, apex);
                encoder.push(name.as_ref(), existing.sample(&mut random).1, Class::IN);
            }
            Some(cuts) if draw < mix.nxdomain + mix.referral => {
                let cut = contents.name(*cuts.sample(&mut random));
                encoder.push(prepend("www", cut).as_ref(), Rtype::A, Class::IN);
            }
            _ => {
                let (owner, rtype) = *existing.sample(&mut random);
                encoder.push(contents.name(owner), rtype, Class::IN);
            }
        }
    }
    Ok(encoder.finish())
}

/// The name with a label in front, or the name itself if that is too long.
fn prepend(label: &str, name: NameRef<'_>) -> Name {
    let prefixed = Name::from_wire(&[&[label.len() as u8], label.as_bytes(), name.wire()].concat());
    prefixed.unwrap_or_else(|_| name.to_owned())
}

//----------- ZoneContents -----------------------------------------------------

/// An RRset: the offset of its owner in [`ZoneContents::names`], and its type.
type Rrset = (u32, Rtype);

/// The authoritative RRsets of a zone, and its cuts.
struct ZoneContents {
    names: Vec<u8>,
    rrsets: Vec<Rrset>,
    /// Offsets of names.
    cuts: Vec<u32>,
}

impl ZoneContents {
    fn read(source: Source<'_>, apex: NameRef<'_>) -> Result<ZoneContents, SampleError> {
        let parsed = text::parse(source, &text::ParseOptions::new(apex), RrsetCollector::default);
        if let Some(error) = parsed.findings.into_iter().find(|found| found.severity == Severity::Error) {
            return Err(SampleError::Zone(Box::new(error)));
        }
        let mut all = RrsetCollector::default();
        for sink in parsed.sinks {
            let offset = all.names.len() as u32;
            all.names.extend_from_slice(&sink.names);
            all.rrsets.extend(sink.rrsets.into_iter().map(|(owner, rtype)| (owner + offset, rtype)));
        }
        Ok(all.without_occluded(apex))
    }

    fn name(&self, offset: u32) -> NameRef<'_> {
        NameRef::from_wire(&self.names[offset as usize..]).expect("written by the collector")
    }
}

#[derive(Default)]
struct RrsetCollector {
    /// Owner names in wire format, concatenated.
    names: Vec<u8>,
    /// An RRset appears twice if its records are not adjacent in the zone file.
    rrsets: Vec<Rrset>,
    last_owner: Option<u32>,
}

impl RecordSink for RrsetCollector {
    fn record(&mut self, record: ZoneRecord<'_>) {
        // Resolvers do not query for these.
        if matches!(record.rtype, Rtype::RRSIG | Rtype::NSEC3) {
            return;
        }
        let is_owner = |&at: &u32| self.names[at as usize..].eq_ignore_ascii_case(record.owner.wire());
        let owner = self.last_owner.filter(is_owner).unwrap_or_else(|| {
            let offset = self.names.len() as u32;
            self.names.extend_from_slice(record.owner.wire());
            offset
        });
        if self.rrsets.last() != Some(&(owner, record.rtype)) {
            self.rrsets.push((owner, record.rtype));
        }
        self.last_owner = Some(owner);
    }
}

impl RrsetCollector {
    /// Removes what is not authoritative (RFC 1034 4.2.1), at or below a zone cut, and wildcards.
    fn without_occluded(self, apex: NameRef<'_>) -> ZoneContents {
        let mut contents = ZoneContents { names: self.names, rrsets: self.rrsets, cuts: Vec::new() };
        let lowercase = |name: NameRef<'_>| name.wire().to_ascii_lowercase();
        let is_cut = |name: NameRef<'_>, rtype: Rtype| rtype == Rtype::NS && name != apex;
        let cuts: HashSet<Vec<u8>> = contents
            .rrsets
            .iter()
            .map(|&(owner, rtype)| (contents.name(owner), rtype))
            .filter(|&(name, rtype)| is_cut(name, rtype))
            .map(|(name, _)| lowercase(name))
            .collect();
        let is_at_or_below_cut = |name: NameRef<'_>| {
            std::iter::successors(Some(name), |name| name.parent())
                .take_while(|&ancestor| ancestor != apex)
                .any(|ancestor| cuts.contains(&lowercase(ancestor)))
        };
        let (mut authoritative, mut topmost_cuts) = (Vec::new(), Vec::new());
        for &(owner, rtype) in &contents.rrsets {
            let name = contents.name(owner);
            if is_cut(name, rtype) && !name.parent().is_some_and(is_at_or_below_cut) {
                topmost_cuts.push(owner);
            } else if !name.is_wildcard() && !is_at_or_below_cut(name) {
                authoritative.push((owner, rtype));
            }
        }
        (contents.rrsets, contents.cuts) = (authoritative, topmost_cuts);
        contents
    }
}

//----------- sampling ---------------------------------------------------------

/// Samples RRsets: all of them, or by weighted type.
struct RrsetSampler {
    /// For each type, the sum of the weights up to and including it, and its RRsets.
    groups: Vec<(f64, ZipfSampler<Rrset>)>,
}

impl RrsetSampler {
    /// The error is what the zone lacks.
    fn new(contents: &ZoneContents, mix: &QueryMix, random: &mut Rng) -> Result<RrsetSampler, String> {
        let mut groups = Vec::new();
        let mut sum = 0.0;
        let mut push = |weight: f64, rrsets: Vec<Rrset>, what: String| -> Result<(), String> {
            sum += weight;
            let group = ZipfSampler::new(rrsets, mix.zipf, random).ok_or(what)?;
            groups.push((sum, group));
            Ok(())
        };
        if mix.types.is_empty() {
            push(1.0, contents.rrsets.clone(), "authoritative record".into())?;
        }
        let mut by_type = BTreeMap::<Rtype, Vec<Rrset>>::new();
        for &rrset in contents.rrsets.iter().filter(|_| !mix.types.is_empty()) {
            by_type.entry(rrset.1).or_default().push(rrset);
        }
        for &(rtype, weight) in &mix.types {
            push(weight, by_type.get(&rtype).cloned().unwrap_or_default(), format!("{rtype} record"))?;
        }
        Ok(RrsetSampler { groups })
    }

    fn sample(&self, random: &mut Rng) -> &Rrset {
        let draw = random.f64() * self.groups.last().map_or(0.0, |(sum, _)| *sum);
        let group = self.groups.partition_point(|(sum, _)| *sum <= draw).min(self.groups.len() - 1);
        self.groups[group].1.sample(random)
    }
}

/// Samples items by a Zipf distribution.
struct ZipfSampler<T> {
    ranked: Vec<T>,
    /// The sum of the popularities up to and including each rank; empty for a uniform distribution.
    sums: Vec<f64>,
}

impl<T> ZipfSampler<T> {
    /// Ranks the items at random; `None` if there are none.
    fn new(mut items: Vec<T>, exponent: f64, random: &mut Rng) -> Option<ZipfSampler<T>> {
        if items.is_empty() {
            return None;
        }
        for index in (1..items.len()).rev() {
            items.swap(index, random.usize(..index + 1));
        }
        let mut sum = 0.0;
        let ranks = if exponent > 0.0 { items.len() } else { 0 };
        let sums = (1..=ranks).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Some(ZipfSampler { sums: sums.collect(), ranked: items })
    }

    fn sample(&self, random: &mut Rng) -> &T {
        let rank = match self.sums.last() {
            None => random.usize(..self.ranked.len()),
            Some(total) => {
                let draw = random.f64() * total;
                self.sums.partition_point(|&sum| sum <= draw)
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

    fn sampled(mix: &QueryMix) -> Result<HashMap<String, usize>, SampleError> {
        let apex: Name = "example".parse().expect("a literal");
        let source = Source { name: "test".into(), bytes: ZONE.as_bytes() };
        let queries = sample(source, apex.as_ref(), mix, &QueryTemplate::default())?;
        let mut counts = HashMap::new();
        for number in 0..queries.len() as u32 {
            *counts.entry(queries.describe(number)).or_default() += 1;
        }
        Ok(counts)
    }

    fn uniform() -> QueryMix {
        QueryMix { count: 10_000, nxdomain: 0.0, referral: 0.0, types: Vec::new(), zipf: 0.0, seed: 1 }
    }

    #[test]
    fn authoritative_rrsets_are_equally_likely() {
        let counts = sampled(&uniform()).expect("there is something");
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
    fn shares_of_nxdomain_and_referrals_are_kept() {
        let mix = QueryMix { nxdomain: 0.4, referral: 0.3, ..uniform() };
        let counts = sampled(&mix).expect("there is something");
        let sum = |filter: &dyn Fn(&str) -> bool| {
            counts.iter().filter(|(name, _)| filter(name)).map(|(_, count)| count).sum::<usize>()
        };
        assert!((3800..4200).contains(&sum(&|name| name.starts_with("nx"))));
        assert!(
            (1350..1650).contains(&counts["www.sub.example. A"])
                && (1350..1650).contains(&counts["www.other.example. A"])
        );
        assert_eq!(sum(&|name| name.contains("deep")), 0, "a cut below a cut is not a cut of this zone");
    }

    #[test]
    fn types_are_sampled_by_weight_and_must_exist() {
        let types = vec![(Rtype::A, 60.0), (Rtype::MX, 40.0)];
        let counts = sampled(&QueryMix { types, ..uniform() }).expect("there is something");
        assert!((3800..4200).contains(&counts["mail.example. MX"]), "{counts:?}");
        assert_eq!(counts.len(), 3);
        let error = sampled(&QueryMix { types: WINDOWS_MIX.to_vec(), ..uniform() }).expect_err("no SRV");
        assert_eq!(error.to_string(), "test: the zone has no SRV record");
    }

    #[test]
    fn popularity_follows_zipf() {
        let counts = sampled(&QueryMix { zipf: 1.0, ..uniform() }).expect("there is something");
        let mut counts: Vec<_> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // 1/1 + ... + 1/7 = 2.593: the first has 38.6 %, the second half of that.
        assert!((3700..4000).contains(&counts[0]) && (1800..2100).contains(&counts[1]), "{counts:?}");
    }
}
