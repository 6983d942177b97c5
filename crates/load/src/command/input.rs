//! The queries to send: from a query file, a capture or a zone file.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueEnum};
use data_encoding::HEXLOWER_PERMISSIVE;
use fastrand::Rng;
use wire::{AddressPrefix, Class, Name, NameRef, Rtype};
use zone::text::Source;

use super::CommandError;
use super::number::{not_negative, positive, share};
use super::target::{client_subnet, prefix};
use crate::queries::zone::{QueryMix, WINDOWS_MIX};
use crate::queries::{OPTION_COOKIE, OPTION_ECS, Queries, QueryEncoder, QueryTemplate, file, pcap, zone as sampling};
use crate::verify::ResponseChecker;

/// The queries to send.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("input").required(true).args(["queries", "pcap", "from_zone"]))]
pub struct Input {
    /// Query file: a line for each query, `name type` or `query NAME CLASS TYPE`
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Capture (pcap or pcapng) of the queries to send, with a source for each client; --speed replays its timing
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Destination port of the capture's queries
    #[arg(long, default_value_t = 53, value_name = "PORT")]
    pcap_port: u16,
    #[command(flatten)]
    sample: SampleArguments,
    /// Send EDNS with this payload size; without it, captured queries keep theirs
    #[arg(long, value_name = "OCTETS")]
    edns: Option<u16>,
    /// Share of queries with DO; 1 sets it in all captured queries
    #[arg(long = "do", value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    dnssec_ok: f64,
    /// Send a cookie (RFC 7873), in hexadecimal: 8 octets, or 16 to 40 with the server's part [without a value: 8 random octets]
    #[arg(long, value_name = "HEX", num_args = 0..=1, default_missing_value = "", value_parser = cookie)]
    cookie: Option<Cookie>,
    /// Send this client subnet (ECS, RFC 7871)
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = prefix)]
    ecs: Option<AddressPrefix>,
    /// Pad queries to a multiple of this length (RFC 7830); 128 is usual
    #[arg(long, value_name = "OCTETS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=512))]
    padding: u16,
    /// Set RD
    #[arg(long)]
    recursion: bool,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A zone file to sample queries from.
#[derive(Debug, Args)]
struct SampleArguments {
    /// Zone file to sample queries from
    #[arg(long, value_name = "FILE", requires = "zone")]
    from_zone: Option<PathBuf>,
    /// Name of that zone
    #[arg(long, value_name = "NAME")]
    zone: Option<Name>,
    #[command(flatten)]
    mix: MixArguments,
}

/// How queries are sampled from zone files.
#[derive(Debug, Args)]
pub struct MixArguments {
    /// Number of queries to sample
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    count: usize,
    /// Share of queries for names that do not exist
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = share)]
    nxdomain: f64,
    /// Share of queries for names below zone cuts
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = share)]
    referral: f64,
    /// Query types with weights, for names that have them [default: every RRset is equally likely]
    #[arg(long, value_delimiter = ',', value_name = "TYPE=WEIGHT", value_parser = weighted_type)]
    types: Vec<(Rtype, f64)>,
    /// A published mix of query types
    #[arg(long, value_enum, conflicts_with = "types")]
    mix: Option<TypeMix>,
    /// Exponent of the Zipf distribution of names; 0: uniform, 1: popularity 1, 1/2, 1/3, ... by rank
    #[arg(long, default_value_t = 0.0, value_name = "EXPONENT", value_parser = not_negative)]
    zipf: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TypeMix {
    /// A 60, CNAME 20, SRV 10, MX 4, TXT 3, NS 3 percent.
    Windows,
}

impl Input {
    /// Reads or samples the queries; at least one.
    pub fn queries(&self) -> Result<Queries, CommandError> {
        let template = self.template();
        let (path, queries) = match (&self.queries, &self.pcap, &self.sample.from_zone) {
            (Some(path), ..) => {
                (path, file::read(&read(path)?, &template).map_err(CommandError::input(path.display()))?)
            }
            (_, Some(path), _) => (path, self.read_capture(path, &template)?),
            (.., Some(path)) => (path, self.sample.sampled(path, self.seed, &template)?),
            (None, None, None) => {
                return Err(CommandError::Input("no queries: give --queries, --pcap or --from-zone".into()));
            }
        };
        if queries.is_empty() { Err(CommandError::without(path, "queries")) } else { Ok(queries) }
    }

    fn template(&self) -> QueryTemplate {
        let mut template = QueryTemplate {
            edns: self.edns,
            dnssec_ok: self.dnssec_ok,
            recursion_desired: self.recursion,
            seed: self.seed,
            options: Vec::new(),
            padding: self.padding,
        };
        if let Some(Cookie(cookie)) = &self.cookie {
            let random = Rng::with_seed(self.seed).u64(..).to_be_bytes();
            template.push_option(OPTION_COOKIE, if cookie.is_empty() { &random } else { cookie });
        }
        if let Some(prefix) = self.ecs {
            template.push_option(OPTION_ECS, &client_subnet(prefix));
        }
        template
    }

    fn read_capture(&self, path: &Path, template: &QueryTemplate) -> Result<Queries, CommandError> {
        let capture =
            pcap::read(&read(path)?, self.pcap_port, template).map_err(CommandError::input(path.display()))?;
        if capture.unusable + capture.fragments > 0 {
            let (unusable, fragments) = (capture.unusable, capture.fragments);
            eprintln!("zonda-load: {}: skipped {unusable} unusable messages, {fragments} fragments", path.display());
        }
        Ok(capture.queries)
    }
}

impl SampleArguments {
    fn sampled(&self, path: &Path, seed: u64, template: &QueryTemplate) -> Result<Queries, CommandError> {
        let Some(apex) = &self.zone else { return Err(CommandError::Input("--from-zone needs --zone".into())) };
        let mut encoder = QueryEncoder::new(template);
        let push = |name: NameRef<'_>, rtype, _| encoder.push(name, rtype, Class::IN);
        let sampled = sampling::sample([(zone_source(path, &read(path)?), apex)], &self.mix.mix(seed), push);
        sampled.map_err(|error| CommandError::Input(error.to_string()))?;
        Ok(encoder.finish())
    }
}

impl MixArguments {
    /// The mix of queries.
    pub fn mix(&self, seed: u64) -> QueryMix {
        QueryMix {
            count: self.count,
            nxdomain: self.nxdomain,
            referral: self.referral,
            types: if self.mix.is_some() { WINDOWS_MIX.to_vec() } else { self.types.clone() },
            zipf: self.zipf,
            seed,
        }
    }
}

/// Reads a list of zones, one per line: `name path`; at least one.
pub fn zone_list(path: &Path) -> Result<Vec<(Name, PathBuf)>, CommandError> {
    let mut zones = Vec::new();
    for (index, line) in read_text(path)?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let invalid = |what: &str| CommandError::Input(format!("{}: line {}: {what}", path.display(), index + 1));
        let (name, file) =
            line.trim().split_once(char::is_whitespace).ok_or_else(|| invalid("not of the form `name path`"))?;
        let apex = name.parse().map_err(|error| invalid(&format!("name `{name}`: {error}")))?;
        zones.push((apex, PathBuf::from(file.trim())));
    }
    if zones.is_empty() { Err(CommandError::without(path, "zones")) } else { Ok(zones) }
}

/// The contents of an input file.
pub fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    std::fs::read(path).map_err(CommandError::input(path.display()))
}

/// The queries of a query file, at least one, without EDNS.
pub fn read_queries(path: &Path) -> Result<Queries, CommandError> {
    let queries = file::read(&read(path)?, &QueryTemplate::default()).map_err(CommandError::input(path.display()))?;
    if queries.is_empty() { Err(CommandError::without(path, "queries")) } else { Ok(queries) }
}

/// The expected responses in a file, one for each query.
pub fn expectations(path: &Path, queries: &Queries) -> Result<ResponseChecker, CommandError> {
    ResponseChecker::from_text(&read_text(path)?, queries).map_err(CommandError::input(path.display()))
}

/// The contents of an input file, which must be UTF-8.
pub fn read_text(path: &Path) -> Result<String, CommandError> {
    String::from_utf8(read(path)?).map_err(|error| CommandError::input(path.display())(error.utf8_error()))
}

/// A zone file that was read.
pub fn zone_source<'b>(path: &Path, bytes: &'b [u8]) -> Source<'b> {
    Source { name: path.display().to_string().into(), bytes }
}

/// The octets of a cookie; empty for random ones.
#[derive(Clone, Debug)]
struct Cookie(Vec<u8>);

/// RFC 7873 4: a client cookie of 8 octets, and a server cookie of 8 to 32.
fn cookie(text: &str) -> Result<Cookie, String> {
    let octets = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|error| format!("not hexadecimal: {error}"))?;
    match octets.len() {
        0 | 8 | 16..=40 => Ok(Cookie(octets)),
        len => Err(format!("{len} octets, but a cookie has 8, or 16 to 40")),
    }
}

fn weighted_type(text: &str) -> Result<(Rtype, f64), String> {
    let (rtype, weight) = text.split_once('=').ok_or("not of the form TYPE=WEIGHT")?;
    Ok((rtype.parse().map_err(|_| format!("no type `{rtype}`"))?, positive(weight)?))
}
