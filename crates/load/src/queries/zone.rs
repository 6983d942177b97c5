//! Queries sampled from zone files: for existing RRsets, below zone cuts, and for names that do not exist.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use fastrand::Rng;
use wire::{Name, NameRef, Rtype};
use zone::text::{self, RecordSink, Source, ZoneRecord};
use zone::{Finding, Severity};

/// Names below a zone cut that are sampled; so many that few are asked twice.
const NAMES_BELOW_CUT: u32 = 10_000;

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
    /// No zone has something that the mix asks for.
    #[error("{file}: the zone has no {what}")]
    Missing {
        /// The zone file, or the first one.
        file: String,
        /// What it lacks.
        what: String,
    },
}

/// The answer to a sampled query, by the contents of its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedAnswer {
    /// An RRset of the zone.
    Answer,
    /// The name servers of a zone cut.
    Referral,
    /// The name does not exist.
    Nxdomain,
}

impl fmt::Display for ExpectedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExpectedAnswer::Answer => "NOERROR answer",
            ExpectedAnswer::Referral => "NOERROR referral",
            ExpectedAnswer::Nxdomain => "NXDOMAIN nxdomain",
        })
    }
}

/// Reads zone files and samples queries from them. Names are ranked by popularity at random.
pub fn sample<'b>(
    zones: impl IntoIterator<Item = (Source<'b>, &'b Name)>,
    mix: &QueryMix,
    mut push: impl FnMut(NameRef<'_>, Rtype, ExpectedAnswer),
) -> Result<(), SampleError> {
    let (mut contents, mut first_file) = (ZoneContents::default(), None);
    for (source, apex) in zones {
        first_file.get_or_insert_with(|| source.name.to_string());
        contents.append(ZoneContents::read(source, apex.as_ref())?);
    }
    let missing = |what: String| SampleError::Missing { file: first_file.clone().unwrap_or_default(), what };
    let mut random = Rng::with_seed(mix.seed);
    // Shares are sums of decimal fractions.
    let has_existing = mix.nxdomain + mix.referral < 1.0 - 1e-9;
    let existing = has_existing.then(|| RrsetSampler::new(&contents, mix, &mut random));
    let existing = existing.transpose().map_err(missing)?;
    let mut cuts = || ZipfSampler::new(contents.cuts.clone(), mix.zipf, &mut random);
    let cuts = (mix.referral > 0.0).then(|| cuts().ok_or_else(|| missing("zone cut".into()))).transpose()?;
    for _ in 0..mix.count {
        let draw = random.f64();
        match (&cuts, &existing) {
            _ if draw < mix.nxdomain => {
                let apex = contents.name(contents.apexes[random.usize(..contents.apexes.len())]);
                let name = prepend(&format!("nx{:012x}", random.u64(..) >> 16), apex);
                push(name.as_ref(), mix.weighted_type(&mut random), ExpectedAnswer::Nxdomain);
            }
            (_, Some(existing)) if draw >= mix.nxdomain + mix.referral => {
                let (owner, rtype) = *existing.sample(&mut random);
                push(contents.name(owner), rtype, ExpectedAnswer::Answer);
            }
            (Some(cuts), _) => {
                let cut = contents.name(*cuts.sample(&mut random));
                let name = prepend(&format!("www{}", random.u32(..NAMES_BELOW_CUT)), cut);
                push(name.as_ref(), Rtype::A, ExpectedAnswer::Referral);
            }
            (None, _) => {}
        }
    }
    Ok(())
}

impl QueryMix {
    /// A type for a name that does not exist; A if no types are given.
    fn weighted_type(&self, random: &mut Rng) -> Rtype {
        let mut draw = random.f64() * self.types.iter().map(|(_, weight)| weight).sum::<f64>();
        let chosen = self.types.iter().find(|(_, weight)| {
            draw -= weight;
            draw < 0.0
        });
        chosen.or(self.types.last()).map_or(Rtype::A, |(rtype, _)| *rtype)
    }
}

/// The name with a label in front, or the name itself if that is too long.
fn prepend(label: &str, name: NameRef<'_>) -> Name {
    let prefixed = Name::from_wire(&[&[label.len() as u8], label.as_bytes(), name.wire()].concat());
    prefixed.unwrap_or_else(|_| name.to_owned())
}

//----------- ZoneContents -----------------------------------------------------

/// An RRset: the offset of its owner in [`ZoneContents::names`], and its type.
type Rrset = (u32, Rtype);

/// The authoritative RRsets of zones, and their cuts.
#[derive(Default)]
struct ZoneContents {
    names: Vec<u8>,
    rrsets: Vec<Rrset>,
    /// Offsets of names.
    cuts: Vec<u32>,
    /// Offsets of names.
    apexes: Vec<u32>,
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

    /// Adds another zone.
    fn append(&mut self, zone: ZoneContents) {
        let offset = self.names.len() as u32;
        self.names.extend(zone.names);
        self.rrsets.extend(zone.rrsets.into_iter().map(|(owner, rtype)| (owner + offset, rtype)));
        self.cuts.extend(zone.cuts.into_iter().map(|at| at + offset));
        self.apexes.extend(zone.apexes.into_iter().map(|at| at + offset));
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
        let apexes = vec![self.names.len() as u32];
        let names = [&self.names, apex.wire()].concat();
        let mut contents = ZoneContents { names, rrsets: self.rrsets, cuts: Vec::new(), apexes };
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
        let mut counts = HashMap::new();
        sample([(source, &apex)], mix, |name, rtype, expected| {
            let is_negative = name.to_string().starts_with("nx");
            let is_below_cut = name.to_string().starts_with("www") && name.to_string().matches('.').count() == 3;
            assert_eq!(expected == ExpectedAnswer::Nxdomain, is_negative, "{name}");
            assert_eq!(expected == ExpectedAnswer::Referral, is_below_cut, "{name}");
            *counts.entry(format!("{name} {rtype}")).or_default() += 1;
        })?;
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
        for cut in ["sub", "other"] {
            let below = sum(&|name| name.starts_with("www") && name.ends_with(&format!(".{cut}.example. A")));
            assert!((1350..1650).contains(&below), "{below} below {cut}");
        }
        assert_eq!(sum(&|name| name.contains("deep")), 0, "a cut below a cut is not a cut of this zone");
    }

    #[test]
    fn only_what_has_a_share_must_exist() {
        let types = vec![(Rtype::SRV, 1.0)];
        let mix = QueryMix { nxdomain: 0.6, referral: 0.4, types, ..uniform() };
        let counts = sampled(&mix).expect("no SRV record is needed");
        assert!(counts.keys().all(|name| name.starts_with("nx") == name.ends_with(" SRV")), "{counts:?}");
    }

    #[test]
    fn all_zones_are_sampled() {
        let apexes: [Name; 2] = ["one", "two"].map(|name| name.parse().expect("a literal"));
        let sources =
            apexes.iter().map(|apex| (Source { name: "test".into(), bytes: &b"@ 60 SOA a b 1 2 3 4 5"[..] }, apex));
        let mut counts = HashMap::<_, usize>::new();
        let mix = QueryMix { nxdomain: 0.5, ..uniform() };
        sample(sources, &mix, |name, _, expected| {
            let apex = if expected == ExpectedAnswer::Answer { Some(name) } else { name.parent() };
            *counts.entry((apex.map(|apex| apex.to_string()), expected.to_string())).or_default() += 1;
        })
        .expect("there is something");
        assert!(counts.len() == 4 && counts.values().all(|count| (2300..2700).contains(count)), "{counts:?}");
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
