//! The keys of the configuration: the one table that parsing, messages, `zonda config` and the manual are made from.
//!
//! A key's documentation starts with one sentence that says all in short; `zonda config` prints that sentence.

use std::path::PathBuf;

use wire::Name;
use zone::CheckMode;

use super::section::section;
use super::value::{CookieSecret, Endpoint, Prefix, Text, Whole, Word};

section! {
    /// The keys that stand before the first table.
    pub struct Top {
        /// More configuration files to read after this one.
        ///
        /// The last part of a path may hold `*` (any characters) and `?` (one character); the files that match are read
        /// in the order of their names, and no match is no error. An included file may hold everything but `include`.
        Reload "include" include: Vec<PathBuf> = "[]";
    }
}

section! {
    /// `[server]`: what the daemon listens on, its limits, its logs.
    pub struct Server {
        /// Addresses and ports to answer on, over UDP and TCP; port 53 where none is written.
        Restart "listen" listen: Vec<Endpoint> = r#"["0.0.0.0:53", "[::]:53"]"#;

        /// Threads that answer over UDP, for each address; 0 is one for each CPU that the process may use.
        Restart "workers" workers: Whole<0, 1024> = "0";

        /// Threads that answer over TCP; 0 is one for every two CPUs, at least one.
        Restart "tcp-workers" tcp_workers: Whole<0, 1024> = "0";

        /// The folder for the control socket and for what must outlive a restart.
        ///
        /// Made if it is missing, and given to `user`, unless others than root could change the way to it: then make it for
        /// that user. It must belong to the user that zonda runs as, or to root, and not be writable for all. Two daemons
        /// cannot share it. Unset, it is `$STATE_DIRECTORY` if systemd gives one,
        /// `/var/lib/zonda` for root, else `$XDG_STATE_HOME/zonda` or `~/.local/state/zonda`.
        Restart "state-dir" state_dir: Option<PathBuf> = "";

        /// The user to become, as `USER` or `USER:GROUP`, once the sockets are open.
        ///
        /// Zone files are read as this user, at the start as well as later. Unset, the user is kept.
        Restart "user" user: Option<Text<255>> = "";

        /// Whether a reload may remove the last zone, or the last zone file of a folder on the command line.
        ///
        /// Otherwise such a reload is refused: mostly a file was cut short or a folder is not mounted.
        Reload "allow-no-zones" allow_no_zones: bool = "false";

        /// The name of this server, told to clients that ask with the NSID option (RFC 5001); empty, none is told.
        Reload "nsid" nsid: Text<255> = r#""""#;

        /// The answer to `id.server` and `hostname.bind` in class CHAOS (RFC 4892); empty, they are refused.
        Reload "identity" identity: Text<255> = r#""""#;

        /// The answer to `version.bind` and `version.server` in class CHAOS (RFC 4892); empty, they are refused.
        Reload "version" version: Text<255> = r#""""#;

        /// The largest UDP answer in octets, whatever a client offers; 1232 fits every path (RFC 9715).
        Reload "udp-payload" udp_payload: Whole<512, 4096> = "1232";

        /// How long an idle TCP connection is kept, in milliseconds; told to clients that ask (RFC 7828).
        Restart "tcp-idle-timeout-ms" tcp_idle_timeout_ms: Whole<100, 6_553_500> = "10000";

        /// How many TCP connections are kept at most; a stuck one, else the longest idle one, makes room for a new one.
        ///
        /// Fewer where the limit of open files (`LimitNOFILE=`, `ulimit -n`) is low: some are reserved for zone files,
        /// reloads and the sockets to listen on. A warning at the start says how many are left.
        Restart "tcp-connections" tcp_connections: Whole<1, 10_000_000> = "10000";

        /// How many TCP connections one client may keep to a thread; a client is an IPv4 address or an IPv6 /56.
        Restart "tcp-connections-per-client" tcp_connections_per_client: Whole<1, 10_000_000> = "1000";

        /// Whether DNS cookies are answered (RFC 7873, RFC 9018).
        Reload "cookies" cookies: bool = "true";

        /// The secrets of DNS cookies: the first makes new cookies, the others are still taken.
        ///
        /// Servers that share an address must share the secrets (RFC 9018 5). Empty, a random secret is made at the start.
        Reload "cookie-secrets" cookie_secrets: Vec<CookieSecret> = "[]";

        /// Response rate limiting: like answers per second to one client network over UDP; 0 is no limit.
        ///
        /// Clients with a valid cookie are never limited.
        Reload "rrl-rate" rrl_rate: Whole<0, 1_000_000> = "0";

        /// Every n-th limited answer is sent truncated, so that a real client can come by TCP; 0 sends none, 1 all.
        Reload "rrl-slip" rrl_slip: Whole<0, 100> = "2";

        /// How many leading bits of an IPv4 address make a client network for rate limiting.
        Reload "rrl-ipv4-prefix" rrl_ipv4_prefix: Whole<1, 32> = "24";

        /// How many leading bits of an IPv6 address make a client network for rate limiting.
        Reload "rrl-ipv6-prefix" rrl_ipv6_prefix: Whole<1, 128> = "56";

        /// The least severe messages to log.
        Reload "log-level" log_level: LogLevel = r#""info""#;

        /// The form of the log on standard error.
        Restart "log-format" log_format: LogFormat = r#""text""#;
    }
}

section! {
    /// `[[zone]]`: a zone to serve. `[template.NAME]`: the same keys but `name` and `template`, for many zones.
    pub struct Zone {
        /// The name of the zone, its apex. Needed.
        Reload "name" name: Option<Name> = "";

        /// The template whose keys this zone takes where it does not set them itself.
        ///
        /// Unset, it is `[template.default]` if there is one.
        Reload "template" template: Option<Text<255>> = "";

        /// The zone file; `{name}` in it stands for the zone's name without its final dot, `root` for the root.
        Reload "file" file: Option<PathBuf> = "";

        /// More folders whose files the zone file may include with `$INCLUDE`, subfolders too.
        ///
        /// It may always include files below its own folder and below the folder of the configuration file that names the
        /// zone. Links and `..` may lead out of a folder only into another one. `["/"]` allows every file that zonda can read;
        /// messages about mistakes quote what is read.
        Reload "include-paths" include_paths: Option<Vec<PathBuf>> = "";

        /// The most records of the zone, those that are left out included; 0 is no limit. A zone with more is not loaded, and the
        /// version before it is kept.
        Reload "max-records" max_records: Option<Whole<0, { u32::MAX }>> = "0";

        /// The most records that `$GENERATE` and files included more than once may make; 0 is no limit.
        ///
        /// All of a zone count together, those that are left out included, and one of more than 256 octets, in text or as data,
        /// counts as several. Without the limit, a few lines of zone text take all memory, or hours.
        Reload "max-generated" max_generated: Option<Whole<0, { u32::MAX }>> = "1000000";

        /// The most NSEC3 iterations of the zone; with more it is not loaded, and the version before it is kept.
        ///
        /// Each iteration makes every answer that denies a name dearer. RFC 9276 asks for 0, and validators take zones with more
        /// than 100 or 150 for unsigned.
        Reload "nsec3-max-iterations" nsec3_max_iterations: Option<Whole<0, 65_535>> = "150";

        /// Servers to transfer the zone from.
        ///
        /// NOT YET SERVED: transfers in come with a later release. Until then a zone with `primaries` is served from
        /// `file` if it has one, as it stands there, and answered with SERVFAIL if it has none; a warning says so.
        Reload "primaries" primaries: Option<Vec<Endpoint>> = "";

        /// Who may transfer the zone from here (AXFR, RFC 5936); nobody where it is not set.
        Reload "allow-transfer" allow_transfer: Option<Vec<Prefix>> = "";

        /// Servers to tell when the zone has changed.
        ///
        /// NOT YET SENT: NOTIFY comes with a later release; a warning says so.
        Reload "notify" notify: Option<Vec<Endpoint>> = "";

        /// Whether a zone with records that break a rule of their RFC, but can be served, is loaded; unset, it is.
        ///
        /// With `lenient` such a record is a warning. With `strict` it is an error: the zone is not loaded, and the version
        /// served before stays. The table of all checks is in `docs/manual/checks.md` (`zonda check --list`).
        Reload "checks" checks: Option<CheckMode> = "";
    }
}

impl Word for CheckMode {
    const WORDS: &'static [(&'static str, CheckMode)] =
        &[("lenient", CheckMode::Lenient), ("strict", CheckMode::Strict)];
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogLevel {
    /// What needs somebody to act.
    Error,
    /// What will need somebody to act.
    Warn,
    /// Starts, stops, changes of zones.
    Info,
    /// What explains the rest.
    Debug,
    /// Everything.
    Trace,
}

impl Word for LogLevel {
    const WORDS: &'static [(&'static str, LogLevel)] = &[
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// A JSON object a line.
    Json,
}

impl Word for LogFormat {
    const WORDS: &'static [(&'static str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];
}
