//! How fast zone text is read: `parse_speed [THREADS [FILE APEX]]`; without a file a TLD of 1 M delegations, 2.2 M records.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use wire::{Name, NameRef};
use zone::text::{Options, Record, Sink, Source, parse};

/// Counts records, and looks at each so that none can be left out.
#[derive(Default)]
struct Count {
    records: u64,
    octets: u64,
}

impl Sink for Count {
    fn record(&mut self, record: Record<'_>) {
        self.records += 1;
        self.octets += (record.owner.wire().len() + record.rdata.len()) as u64;
    }
}

/// A TLD: two NS each, of 2,000 providers; a tenth with glue of its own.
fn tld(delegations: u32) -> String {
    let mut text =
        String::from("$ORIGIN tld.\n$TTL 3600\n@ SOA ns1.tld. host.tld. 1 3600 900 604800 300\n@ NS ns1.tld.\n");
    for i in 0..delegations {
        let (provider, high, low) = (i.wrapping_mul(2_654_435_761) % 2000, i >> 8 & 255, i & 255);
        let written = if i % 10 > 0 {
            writeln!(text, "domain{i} NS ns1.provider{provider}.example.\ndomain{i} NS ns2.provider{provider}.example.")
        } else {
            write!(
                text,
                "domain{i} NS ns1.domain{i}\ndomain{i} NS ns2.domain{i}\n\
                 ns1.domain{i} A 10.1.{high}.{low}\nns2.domain{i} A 10.2.{high}.{low}\n"
            )
        };
        written.expect("strings take all writes");
    }
    text
}

fn measure(text: &[u8], apex: NameRef<'_>, threads: usize) {
    let options = Options { threads, ..Options::new(apex) };
    let start = Instant::now();
    let parsed = parse(Source { name: Arc::from("zone"), bytes: text }, &options, Count::default);
    let seconds = start.elapsed().as_secs_f64();
    let records: u64 = parsed.sinks.iter().map(|sink| sink.records).sum();
    let octets: u64 = parsed.sinks.iter().map(|sink| sink.octets).sum();
    println!(
        "{threads} threads, {} octets, {records} records ({octets} octets), {} sinks, {} findings: {seconds:.3} s, {:.0} MB/s, {:.0} ns a record",
        text.len(),
        parsed.sinks.len(),
        parsed.diagnostics.len(),
        text.len() as f64 / seconds / 1e6,
        seconds * 1e9 * threads as f64 / records as f64,
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let threads = arguments.first().map_or(1, |threads| threads.parse().expect("a number of threads"));
    let (text, apex) = match &arguments[..] {
        [_, file, apex] => (std::fs::read(file).expect("a file that can be read"), apex.as_str()),
        _ => (tld(1_000_000).into_bytes(), "tld."),
    };
    let apex: Name = apex.parse().expect("a name");
    for _ in 0..3 {
        measure(&text, apex.as_ref(), threads);
    }
}
