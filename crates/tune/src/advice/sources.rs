//! The documents that give advice on these settings.

use std::fmt;

/// What a document says about a setting.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The document.
    pub document: Document,
    /// The value that it gives, as it is written; empty if it gives none.
    pub value: &'static str,
    /// What it says, in few words, after the value.
    pub says: &'static str,
}

/// A document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// Liang et al., as quoted by USC/ISI.
    Liang,
    /// ESnet, as quoted by USC/ISI.
    Esnet,
    /// An operator of authoritative servers, as quoted by USC/ISI.
    Operator,
    /// The operator's lower values, as quoted by USC/ISI.
    LowerValues,
    /// The DIINER experiments, in the USC/ISI page.
    Diiner,
    /// USC/ISI, the page itself.
    Usc,
    /// ISC's talk on zone transfers.
    Isc,
    /// Microsoft's article on Windows DNS.
    Microsoft,
    /// NLnet Labs' article on NSD 4.
    NlnetLabs,
    /// The documentation of the Linux kernel.
    Kernel,
    /// The RFC on selective acknowledgements.
    Rfc2018,
    /// The manual of NSD.
    NsdManual,
    /// The manual of Knot DNS.
    KnotManual,
    /// The manual of BIND 9.
    BindManual,
}

impl Document {
    /// All documents, for the manual.
    pub const ALL: [Document; 14] = [
        Document::Usc,
        Document::Liang,
        Document::Esnet,
        Document::Operator,
        Document::LowerValues,
        Document::Diiner,
        Document::Isc,
        Document::Microsoft,
        Document::NlnetLabs,
        Document::Kernel,
        Document::Rfc2018,
        Document::NsdManual,
        Document::KnotManual,
        Document::BindManual,
    ];

    /// The name used in rows.
    pub fn short(self) -> &'static str {
        match self {
            Document::Liang => "Liang et al. 2018",
            Document::Esnet => "ESnet",
            Document::Operator => "an operator",
            Document::LowerValues => "an operator's lower values",
            Document::Diiner => "DIINER 2023",
            Document::Usc => "USC/ISI",
            Document::Isc => "ISC 2024",
            Document::Microsoft => "Microsoft",
            Document::NlnetLabs => "NLnet Labs 2013",
            Document::Kernel => "kernel documentation",
            Document::Rfc2018 => "RFC 2018",
            Document::NsdManual => "NSD manual",
            Document::KnotManual => "Knot manual",
            Document::BindManual => "BIND manual",
        }
    }

    /// Title and publisher.
    pub fn title(self) -> &'static str {
        match self {
            Document::Liang => "settings of “LDplayer: DNS Experimentation at Scale” (IMC 2018), quoted by USC/ISI",
            Document::Esnet => "host tuning for 10G and 100 ms (fasterdata.es.net), quoted by USC/ISI",
            Document::Operator => "“Configuration from another authoritative server operator”, quoted by USC/ISI",
            Document::LowerValues => "“values lower/different than ESnet or liang values”, quoted by USC/ISI",
            Document::Diiner => "Spencer Stingley's tests of kernel parameters on DIINER, USC, 2023, not peer-reviewed",
            Document::Usc => "USC/ISI, “Tuning DNS for TCP queries”",
            Document::Isc => "Petr Špaček, ISC, “Zone transfer benchmarks: Lessons learned”, 2024",
            Document::Microsoft => {
                "Microsoft, “Name Resolution Performance of Authoritative Windows DNS Server 2012 R2”, also for the preview of 2016"
            }
            Document::NlnetLabs => "NLnet Labs, “NSD4 Performance Measurements”, 2013, with readers' comments",
            Document::Kernel => "Documentation/networking/ip-sysctl.rst, scaling.rst and admin-guide of Linux",
            Document::Rfc2018 => "Mathis et al., “TCP Selective Acknowledgment Options”, 1996",
            Document::NsdManual => "nsd.conf(5) and “Tuning” of NSD 4.6",
            Document::KnotManual => "knot.conf(5) of Knot DNS 3.2",
            Document::BindManual => "named.conf(5) and the Administrator Reference Manual of BIND 9.18",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}{}", self.document.short(), self.value, self.says)
    }
}

/// A source that gives no value.
pub(super) const fn says(document: Document, says: &'static str) -> Source {
    Source { document, value: "", says }
}

/// A source that gives a value.
pub(super) const fn advises(document: Document, value: &'static str) -> Source {
    Source { document, value, says: "" }
}

impl Source {
    /// The same source with what it says of the value.
    pub(super) const fn saying(self, says: &'static str) -> Source {
        Source { says, ..self }
    }
}

/// The values of sources, if they differ: `sources disagree: 0 (an operator) or 1 (kernel documentation)`.
pub(super) fn disagreement(sources: &[Source]) -> Option<String> {
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for source in sources.iter().filter(|source| !source.value.is_empty()) {
        match values.iter_mut().find(|(value, _)| *value == source.value) {
            Some((_, documents)) => documents.push(source.document.short()),
            None => values.push((source.value, vec![source.document.short()])),
        }
    }
    let values: Vec<String> =
        values.into_iter().map(|(value, documents)| format!("{value} ({})", documents.join(", "))).collect();
    (values.len() > 1).then(|| format!("sources disagree: {}", values.join(" or ")))
}
