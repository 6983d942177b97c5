//! Arguments that say what is asked: a text, a capture or a zone.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueEnum};
use wire::{Name, Rtype};
use zone::text::Source;

use super::Failure;
use super::number::{not_negative, positive, share};
use crate::queries::zone::{Recipe, WINDOWS_MIX};
use crate::queries::{Dress, Queries, file, pcap, zone as drawing};

/// What is asked.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("input").required(true).args(["queries", "pcap", "from_zone"]))]
pub struct Input {
    /// Queries, a line each: `name type` or `query NAME CLASS TYPE`
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// The queries of a capture (pcap or pcapng), from its clients' sources; with --speed at its times
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// The port that the capture's queries were sent to
    #[arg(long, default_value_t = 53, value_name = "PORT")]
    pcap_port: u16,
    #[command(flatten)]
    draw: Draw,
    /// Ask with EDNS and this payload size (a capture has its own)
    #[arg(long, value_name = "OCTETS")]
    edns: Option<u16>,
    /// The share of queries with DO
    #[arg(long = "do", value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    dnssec_ok: f64,
    /// Ask for recursion
    #[arg(long)]
    recursion: bool,
    /// Where everything random begins
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How queries are drawn from a zone.
#[derive(Debug, Args)]
struct Draw {
    /// Draw queries from this zone file
    #[arg(long, value_name = "FILE", requires = "zone")]
    from_zone: Option<PathBuf>,
    /// The name of that zone
    #[arg(long, value_name = "NAME")]
    zone: Option<Name>,
    /// How many queries to draw
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    count: usize,
    /// The share of names that do not exist
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = share)]
    nxdomain: f64,
    /// The share of names below zone cuts
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = share)]
    referral: f64,
    /// Types by weight, asked for at names that have them; without any, every RRset is as likely
    #[arg(long, value_delimiter = ',', value_name = "TYPE=WEIGHT", value_parser = weighted_type)]
    types: Vec<(Rtype, f64)>,
    /// A published mix of types
    #[arg(long, value_enum, conflicts_with = "types")]
    mix: Option<Mix>,
    /// How the popularity of a name falls with its rank; 0: not at all, 1: as 1, 1/2, 1/3, ...
    #[arg(long, default_value_t = 0.0, value_name = "EXPONENT", value_parser = not_negative)]
    zipf: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mix {
    /// A 60, CNAME 20, SRV 10, MX 4, TXT 3, NS 3 percent.
    Windows,
}

impl Input {
    /// Reads, captures or draws the queries; there is at least one.
    pub fn queries(&self) -> Result<Queries, Failure> {
        let dress =
            Dress { edns: self.edns, dnssec_ok: self.dnssec_ok, recursion_desired: self.recursion, seed: self.seed };
        let (path, queries) = match (&self.queries, &self.pcap, &self.draw.from_zone) {
            (Some(path), ..) => (path, file::read(&read(path)?, &dress).map_err(Failure::input(path.display()))?),
            (_, Some(path), _) => (path, self.captured(path)?),
            (.., Some(path)) => (path, self.draw.drawn(path, self.seed, &dress)?),
            (None, None, None) => {
                return Err(Failure::Input("no queries: give --queries, --pcap or --from-zone".into()));
            }
        };
        if queries.is_empty() {
            return Err(Failure::Input(format!("{}: no queries", path.display())));
        }
        Ok(queries)
    }

    fn captured(&self, path: &Path) -> Result<Queries, Failure> {
        let capture = pcap::read(&read(path)?, self.pcap_port).map_err(Failure::input(path.display()))?;
        if capture.unusable + capture.fragments > 0 {
            let (unusable, fragments) = (capture.unusable, capture.fragments);
            eprintln!("zonda-load: {}: left out {unusable} broken messages, {fragments} fragments", path.display());
        }
        Ok(capture.queries)
    }
}

impl Draw {
    fn drawn(&self, path: &Path, seed: u64, dress: &Dress) -> Result<Queries, Failure> {
        let Some(apex) = &self.zone else { return Err(Failure::Input("--from-zone needs --zone".into())) };
        let recipe = Recipe {
            count: self.count,
            nxdomain: self.nxdomain,
            referral: self.referral,
            types: if self.mix.is_some() { WINDOWS_MIX.to_vec() } else { self.types.clone() },
            zipf: self.zipf,
            seed,
        };
        let bytes = read(path)?;
        let source = Source { name: path.display().to_string().into(), bytes: bytes.as_slice() };
        drawing::draw(source, apex.as_ref(), &recipe, dress).map_err(|error| Failure::Input(error.to_string()))
    }
}

/// The content of an input file.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(Failure::input(path.display()))
}

fn weighted_type(text: &str) -> Result<(Rtype, f64), String> {
    let (rtype, weight) = text.split_once('=').ok_or("not of the form TYPE=WEIGHT")?;
    Ok((rtype.parse().map_err(|_| format!("no type `{rtype}`"))?, positive(weight)?))
}
