//! The keys of the configuration: the one table that the reader, messages, `zonda config` and the manual are made from.
//!
//! The first paragraph of a key's documentation is one or two sentences that sum it up; `zonda config` prints it.

use toml::Spanned;

use super::access_list::{AccessEntry, UpdateRight};
use super::key_spec::key_table;
use super::remote_server::RemoteServer;
use super::value::{
    Address, BoundedText, CatalogRole, CatalogTemplates, CheckSetting, CookieSecret, DnssecCheck, DnssecScope,
    DomainName, Endpoint, FilePath, LogFormat, LogLevel, Prefix, SerialSetting, TlsEndpoint, TsigAlgorithm, TsigSecret,
    WholeNumber, ZonemdMode,
};

key_table! {
    /// The keys before the first table of a file.
    pub struct TopLevelKeys {
        /// More configuration files to read after this one.
        ///
        /// The last part of a path may contain `*` (any characters) and `?` (one character); matching files are read in the
        /// order of their names. It is no error if none matches, or if the folder does not exist; a reload is refused if none matches any more.
        /// An included file may set every key but `include`.
        Reload "include" include: Vec<Spanned<FilePath>> = "[]";

        /// Files that list zones, one zone per line: `NAME [TEMPLATE]`.
        ///
        /// For very many zones: a list is read faster than `[[zone]]` tables and takes less space. A zone takes all its keys from its
        /// template, or from `[template.default]`; the template needs `primaries`, or a `file`, usually with `{name}` in it. `#` starts a
        /// comment (write `\035` for a `#` in a name). `*` and `?` work as in `include`, and included files may have their own lists. A reload
        /// reads the lists again.
        Reload "zone-list" zone_list: Vec<Spanned<FilePath>> = "[]";
    }
}

key_table! {
    /// `[server]`: listeners, limits, logs.
    pub struct Server {
        /// Addresses and ports to listen on, over UDP and TCP; the default port is 53.
        Restart "listen" listen: Vec<Endpoint> = r#"["0.0.0.0:53", "[::]:53"]"#;

        /// Addresses and ports to listen on for TLS (RFC 7858, RFC 9103); the default port is 853.
        ///
        /// It needs `tls-cert` and `tls-key`, or `tls-self-signed`. Only TLS 1.3 is accepted.
        Restart "listen-tls" listen_tls: Vec<TlsEndpoint> = "[]";

        /// Addresses and ports to listen on for QUIC (RFC 9250); the default port is 853, and port 53 is not allowed.
        ///
        /// It needs `tls-cert` and `tls-key`, or `tls-self-signed`. Access lists treat QUIC as TLS: an entry with `tls` matches either.
        Restart "listen-quic" listen_quic: Vec<TlsEndpoint> = "[]";

        /// The certificate chain of this server in PEM, its own certificate first.
        ///
        /// Every reload reads it and `tls-key` again, as `user`; open connections go on.
        Reload "tls-cert" tls_cert: Option<FilePath> = "";

        /// The private key of `tls-cert` in PEM.
        Reload "tls-key" tls_key: Option<FilePath> = "";

        /// Whether to make a self-signed certificate, for trials, instead of `tls-cert` and `tls-key`.
        ///
        /// The log has its pin, for the `tls-pin` of a client.
        Reload "tls-self-signed" tls_self_signed: bool = "false";

        /// The processor time of TLS handshakes, in percent of one processor. QUIC handshakes have another share of the same size.
        ///
        /// With the default, floods of both at once take one processor, half for each; others are for answers. Accepting and closing
        /// connections, and the packets of QUIC, are not part of it. TLS handshakes have a thread for each 100 percent or part of it, at
        /// most one for each TLS thread.
        Restart "tls-handshake-percent" tls_handshake_percent: WholeNumber<1, 100_000> = "50";

        /// A file of keys for TLS session tickets, so that several servers resume each other's sessions (RFC 8446 4.6.1).
        ///
        /// One key per line, 32 octets in base64, as `openssl rand -base64 32` prints; `#` starts a comment. The first key makes
        /// tickets, and all keys are accepted. Whoever has a key can read the sessions that were resumed with its tickets. So write a new key to
        /// the first line every few hours, remove the oldest, and reload. If this is not set, the server makes its own keys, and
        /// replaces them every 6 hours. QUIC does not use them: each server resumes its own sessions only.
        Reload "tls-ticket-keys" tls_ticket_keys: Option<FilePath> = "";

        /// The certificates of the authorities that certify primaries and clients, in PEM.
        ///
        /// It may also contain the certificates of primaries and clients themselves. If it is not set, only a `tls-pin` authenticates a
        /// primary, and clients are not asked for certificates. Revocation lists (CRLs) are not read: see "Revoking a
        /// certificate" in the manual.
        Reload "tls-ca" tls_ca: Option<FilePath> = "";

        /// UDP threads for each address to listen on; 0 means one for each CPU that the process may use.
        Restart "workers" workers: WholeNumber<0, 1024> = "0";

        /// TCP threads; 0 means one for every two CPUs, at least one.
        ///
        /// With `listen-tls` there are as many TLS threads, and more for handshakes (`tls-handshake-percent`); with `listen-quic`, as many QUIC threads.
        Restart "tcp-workers" tcp_workers: WholeNumber<0, 1024> = "0";

        /// The folder for the control socket and for data that must survive a restart.
        ///
        /// If it is missing, it is created and given to `user`. If a user other than root can change the path to it, create it yourself
        /// for `user`. It must belong to the user that zonda runs as, or to root, and must not be writable for everybody. Two servers
        /// cannot share it.
        ///
        /// Without this key it is `$STATE_DIRECTORY` if systemd sets that, `/var/lib/zonda` for root, else `$XDG_STATE_HOME/zonda` or
        /// `~/.local/state/zonda`. Without this key and without systemd there is no journal: transferred zones are not kept over a restart.
        ///
        /// Until a restart, `zonda reload`, `zonda zone` and `zonda metrics` need `--state-dir` with the old folder.
        Restart "state-dir" state_dir: Option<FilePath> = "";

        /// Whether members of the group that zonda runs as may use the control socket, besides root and the user that it runs as.
        ///
        /// They may use `zonda reload`, `zonda zone` and `zonda metrics`, but read no other files of the state-dir. With `--state-dir` these commands
        /// do not read the configuration, which may contain secrets.
        Restart "control-by-group" control_by_group: bool = "false";

        /// The maximum size of the earlier changes of all zones, in memory and in the journal, in octets; 0 means no limit.
        ///
        /// Above it, the oldest are dropped from the journal, whatever zone they belong to: see `max-journal-bytes`; in memory, a zone that changes
        /// keeps its last change alone. The current version of each zone, and the changes that lead to it, are not limited. As files are
        /// compacted in the background, the journal may take about twice that much on disk.
        Restart "max-journal-total-bytes" max_journal_total_bytes: WholeNumber<0, { u32::MAX }> = "1073741824";

        /// The user to run as once the sockets are open: `USER` or `USER:GROUP`.
        ///
        /// Zone files are read as this user, at the start as well as later. If it is not set, the user does not change.
        Restart "user" user: Option<BoundedText<255>> = "";

        /// Whether a reload may remove the last zone, or the last zone file of a folder on the command line.
        ///
        /// If it may not, such a reload is refused: usually a file was truncated or a folder is not mounted. It is also refused if a folder on the
        /// command line, or a pattern of `include` or `zone-list`, has no file any more.
        Reload "allow-no-zones" allow_no_zones: bool = "false";

        /// The name of this server for clients that ask with the NSID option (RFC 5001); empty disables NSID.
        Reload "nsid" nsid: BoundedText<255> = r#""""#;

        /// The answer to `id.server` and `hostname.bind` in class CHAOS (RFC 4892); if empty, such queries are refused.
        Reload "identity" identity: BoundedText<255> = r#""""#;

        /// The answer to `version.bind` and `version.server` in class CHAOS (RFC 4892); if empty, such queries are refused.
        Reload "version" version: BoundedText<255> = r#""""#;

        /// The maximum size of a UDP response in octets, whatever size a client offers; 1232 avoids fragmentation (RFC 9715).
        Reload "udp-payload" udp_payload: WholeNumber<512, 4096> = "1232";

        /// How long an idle TCP or TLS connection stays open, in milliseconds; sent to clients that ask for it (RFC 7828).
        ///
        /// When more than half of the maximum number of connections are open it is shortened, down to a tenth.
        Restart "tcp-idle-timeout-ms" tcp_idle_timeout_ms: WholeNumber<100, 6_553_500> = "10000";

        /// The maximum number of TCP and TLS connections. For one more, a stuck connection is closed, else the longest idle one.
        ///
        /// 0 means as many as the limit of open files (`LimitNOFILE=`, `ulimit -n`) and a quarter of the available memory allow. Some
        /// descriptors are reserved for zone files, reloads and listening sockets. If the limit allows fewer than configured, a warning at the
        /// start gives the number.
        ///
        /// The TCP and TLS threads share it: each has an equal part, and what the others leave free.
        Restart "tcp-connections" tcp_connections: WholeNumber<0, 10_000_000> = "0";

        /// The maximum number of TCP and TLS connections of one client; a client is an IPv4 address or an IPv6 /56.
        ///
        /// 0 means 1000, or a quarter of all connections if that is less, but at least 8.
        Restart "tcp-connections-per-client" tcp_connections_per_client: WholeNumber<0, 10_000_000> = "0";

        /// Proxies that send PROXY headers (version 2): before each UDP message, and at the start of each connection.
        ///
        /// Access lists, RRL, cookies and the limits per client then apply to the client in the header. Messages and connections of
        /// these addresses without a valid header are refused, and so are headers from other addresses. With TLS the header precedes
        /// the handshake. QUIC has no such headers.
        Restart "proxy-from" proxy_from: Vec<Prefix> = "[]";

        /// How long a QUIC connection without queries or responses stays open, in milliseconds.
        ///
        /// When more than half of the maximum number of connections are open it is shortened, down to a tenth.
        Restart "quic-idle-timeout-ms" quic_idle_timeout_ms: WholeNumber<100, 6_553_500> = "10000";

        /// The maximum number of QUIC connections. For one more, the one without progress for the longest time is closed.
        ///
        /// 0 means as many as a quarter of the available memory allows, at 72 KiB each. The number is divided equally among the QUIC
        /// threads.
        Restart "quic-connections" quic_connections: WholeNumber<0, 10_000_000> = "0";

        /// The maximum number of QUIC connections of one client; a client is an IPv4 address or an IPv6 /56.
        ///
        /// 0 means 1000, or a quarter of all connections if that is less, but at least 8.
        Restart "quic-connections-per-client" quic_connections_per_client: WholeNumber<0, 10_000_000> = "0";

        /// Whether to use DNS cookies (RFC 7873, RFC 9018).
        Reload "cookies" cookies: bool = "true";

        /// The secrets of DNS cookies: the first makes new cookies, all of them verify cookies.
        ///
        /// Servers that share an address must share the secrets (RFC 9018 5). If the list is empty, a random secret is
        /// generated at the start.
        Reload "cookie-secrets" cookie_secrets: Vec<CookieSecret> = "[]";

        /// Response rate limiting (RRL): similar UDP responses per second to one client network, from each UDP thread; 0 disables it.
        ///
        /// Queries with a valid cookie or a valid signature (TSIG) are never limited.
        Reload "rrl-rate" rrl_rate: WholeNumber<0, 1_000_000> = "0";

        /// RRL: every `rrl-slip`-th limited response is sent with TC set, so that a real client can retry over TCP; the others
        /// are dropped. 0 drops all, 1 truncates all.
        Reload "rrl-slip" rrl_slip: WholeNumber<0, 100> = "2";

        /// RRL: the prefix length of an IPv4 client network.
        Reload "rrl-ipv4-prefix" rrl_ipv4_prefix: WholeNumber<1, 32> = "24";

        /// RRL: the prefix length of an IPv6 client network.
        Reload "rrl-ipv6-prefix" rrl_ipv6_prefix: WholeNumber<1, 128> = "56";

        /// The least severe messages to log.
        Reload "log-level" log_level: LogLevel = r#""info""#;

        /// The format of the log on standard error.
        Restart "log-format" log_format: LogFormat = r#""text""#;
    }
}

key_table! {
    /// `[[key]]`: a secret shared with other servers and clients that signs messages (TSIG, RFC 8945).
    pub struct TsigKeyTable {
        /// The name of the key, the same on both sides. Required.
        Reload "name" name: Option<DomainName> = "";

        /// The algorithm of the key. Required.
        Reload "algorithm" algorithm: Option<TsigAlgorithm> = "";

        /// The secret in base64, as `openssl rand -base64 32` prints. It is never printed or logged.
        Reload "secret" secret: Option<TsigSecret> = "";

        /// A file with the secret in base64, instead of `secret`. Every reload reads it again.
        Reload "secret-file" secret_file: Option<FilePath> = "";

        /// How many octets a truncated MAC must have to be accepted; 0 accepts full MACs only.
        ///
        /// For clients that truncate MACs, such as BIND with a key for `hmac-sha256-128`: 128 bits are 16 octets. RFC 8945 5.2.2.1 permits
        /// half of the full length or more, and not less than 10 octets. This server sends full MACs.
        Reload "min-mac-octets" min_mac_octets: WholeNumber<0, 64> = "0";
    }
}

key_table! {
    /// `[[zone]]`: a zone to serve. `[template.NAME]`: the same keys but `name` and `template`, for many zones.
    pub struct ZoneKeys {
        /// The name of the zone, its apex. Required.
        Reload "name" name: Option<DomainName> = "";

        /// The template whose values this zone takes for the keys that it does not set itself.
        ///
        /// If it is not set, the template is `[template.default]`, if there is one.
        Reload "template" template: Option<BoundedText<255>> = "";

        /// The zone file; `{name}` in it is replaced by the zone's name without its final dot, `root` for the root.
        Reload "file" file: Option<FilePath> = "";

        /// More folders whose files the zone file may include with `$INCLUDE`, subfolders too.
        ///
        /// Files below the zone file's own folder, and below the folder of the configuration file that names the zone or its list, may
        /// always be included. Links and `..` are resolved first. `["/"]` allows every file that zonda can read; note that messages about
        /// mistakes quote these files.
        Reload "include-paths" include_paths: Option<Vec<FilePath>> = "[]";

        /// The maximum number of records of the zone, ignored ones included; 0 means no limit. If a zone has more, it is not
        /// loaded, and the version served before stays.
        ///
        /// A version that reaches 90 percent of it or of `max-bytes`, where that is 1000 or more, is served with a warning.
        Reload "max-records" max_records: Option<WholeNumber<0, { u32::MAX }>> = "0";

        /// The maximum number of records from `$GENERATE` and from files that are included more than once; 0 means no limit.
        ///
        /// All such records of a zone count, ignored ones included; a record of more than 256 octets, as text or as
        /// data, counts as several. Without a limit, a few lines of zone text can use up all memory, or take hours.
        Reload "max-generated" max_generated: Option<WholeNumber<0, { u32::MAX }>> = "1000000";

        /// The maximum number of NSEC3 iterations. If a zone has more, it is not loaded, and the version served before stays.
        ///
        /// Each iteration makes every negative answer more expensive. RFC 9276 recommends 0, and validators treat zones with
        /// more than 100 or 150 as unsigned.
        Reload "nsec3-max-iterations" nsec3_max_iterations: Option<WholeNumber<0, 65_535>> = "150";

        /// The maximum size of the zone in memory, in octets; 0 means no limit. If a zone is bigger, it is not loaded, and the
        /// version served before stays.
        Reload "max-bytes" max_bytes: Option<WholeNumber<0, { u32::MAX }>> = "0";

        /// The maximum size of the zone's earlier changes that are kept for incremental transfers (IXFR, RFC 1995), in octets; 0 means
        /// no limit.
        ///
        /// They are kept in memory if anybody may transfer the zone (`allow-transfer`), and in the journal for the next start: the latest 256
        /// at most. The oldest are dropped first, and a secondary that needs them gets the whole zone. The last change is always kept,
        /// whatever its size. In the journal, a smaller limit takes effect when the zone's image is next written.
        Reload "max-journal-bytes" max_journal_bytes: Option<WholeNumber<0, { u32::MAX }>> = "1048576";

        /// The maximum share of the zone's names that one change may remove, in percent; 0 means no limit. A change that removes
        /// more is refused, whatever it adds, and the version served before stays. Names of NSEC3 records do not count.
        ///
        /// This protects against a file or a primary that has lost most of a zone. To publish such a version, raise the limit and reload.
        Reload "max-shrink-percent" max_shrink_percent: Option<WholeNumber<0, 100>> = "0";

        /// Servers to transfer the zone from. A zone with `primaries` needs no `file`: that of one that has it is served, and
        /// does not expire, until a primary has sent a version.
        ///
        /// An entry is an address with an optional port, or a table: `{ address = "192.0.2.2", key = "transfer.example.",
        /// tls = "ns1.example.net", source = "192.0.2.53" }`. The default port is 53, with TLS and QUIC 853. There may be up to 16 entries.
        /// `key` names the `[[key]]` that signs messages. `source` is the address to send from. `quic = true` uses QUIC (RFC 9250)
        /// instead of TCP.
        ///
        /// `tls = true` encrypts without authentication (RFC 9103). `tls = "NAME"` authenticates the server by that name in its certificate,
        /// verified with `tls-ca`. `tls-pin = "sha256/..."` authenticates it by the SHA-256 digest of its public key in base64.
        /// `tls-client-cert` and `tls-client-key` are the files of this server's own certificate, for mutual TLS.
        ///
        /// A zone with `primaries` and a `file` starts with the file, unless a version is stored in the `state-dir`. Once a
        /// primary has sent a version, the file is not read again.
        Reload "primaries" primaries: Option<Vec<RemoteServer>> = "[]";

        /// Who may send NOTIFY (RFC 1996) besides the primaries, which always may, with their key if they have one.
        ///
        /// Entries as in `allow-transfer`.
        Reload "allow-notify" allow_notify: Option<Vec<AccessEntry>> = "[]";

        /// Who may transfer the zone from this server (AXFR, RFC 5936; IXFR, RFC 1995); nobody by default.
        ///
        /// An entry is an address or a prefix, or a table: `{ address = "2001:db8::/32", key = "transfer.example.", tls = true }`.
        /// One entry must match, with all of its keys. `key` requires a request signed with that `[[key]]`. `tls = true` requires TLS or
        /// QUIC; `tls = "NAME"` also requires a client certificate with that name. An entry without `address` matches any address.
        ///
        /// A transfer keeps its version in memory to the end. If that has been replaced, the transfer is ended two hours after it began.
        Reload "allow-transfer" allow_transfer: Option<Vec<AccessEntry>> = "[]";

        /// Who may change the zone by dynamic update (RFC 2136); nobody by default.
        ///
        /// Entries as in `allow-transfer`, with more keys that limit what may be changed. `names` is a list of names, where
        /// `*.dyn.example.com` means all names below `dyn.example.com`; `types` is a list of record types. Each record of an
        /// update must be covered by an entry. Without `types`, an entry covers all types except those that sign or define the zone:
        /// DNSKEY, RRSIG, NSEC, NSEC3, NSEC3PARAM and ZONEMD, and SOA and NS at the apex.
        ///
        /// A zone with DNSKEY records is updated only by entries with `signed = true`: such an update must bring its own
        /// signatures, and a SOA record with a later serial.
        ///
        /// It needs `state-dir`, where updates are stored, or `StateDirectory=` of systemd. Where systemd does not start it, as for `zonda check`
        /// in a shell, set STATE_DIRECTORY in the environment instead. If a reload adds `state-dir`, updates get SERVFAIL until zonda is restarted.
        ///
        /// A secondary with `forward-updates` forwards the updates of clients that match an entry, or all updates if there is no entry.
        Reload "allow-update" allow_update: Option<Vec<UpdateRight>> = "[]";

        /// Whether a secondary forwards dynamic updates to its primaries (RFC 2136 6). Otherwise the client gets NOTIMP.
        ///
        /// The message is forwarded unchanged, so the primaries must accept the client's key.
        Reload "forward-updates" forward_updates: Option<bool> = "false";

        /// Servers to notify when the zone has changed (RFC 1996).
        ///
        /// Entries as in `primaries`. NOTIFY is sent over UDP, and over TCP if it is not answered; to entries with `tls` or `quic`, over TLS
        /// or QUIC only.
        Reload "notify" notify: Option<Vec<RemoteServer>> = "[]";

        /// Whether to notify the servers of the zone's NS records, too, on port 53 and without a key.
        ///
        /// Only those are notified whose addresses are in zones of this server. The primary that the SOA record names, and addresses that
        /// this server listens on, are not.
        Reload "notify-ns" notify_ns: Option<bool> = "false";

        /// The addresses to send SOA queries, transfer requests and NOTIFY from; the first one of the other server's family is used. An entry
        /// of `primaries` or `notify` may have its own `source`.
        Reload "source" source: Option<Vec<Address>> = "[]";

        /// The minimum time between two checks of the serial at the primaries, in seconds, whatever the SOA record says.
        ///
        /// NOTIFY and `zonda zone refresh` cause a check at once. This and the limits below apply to zones with `primaries`.
        Reload "min-refresh-s" min_refresh_s: Option<WholeNumber<1, { i32::MAX as u32 }>> = "2";

        /// The maximum time between two checks of the serial at the primaries, in seconds.
        Reload "max-refresh-s" max_refresh_s: Option<WholeNumber<1, { i32::MAX as u32 }>> = "2419200";

        /// The minimum time between a failed check or transfer and the next attempt, in seconds.
        Reload "min-retry-s" min_retry_s: Option<WholeNumber<1, { i32::MAX as u32 }>> = "1";

        /// The maximum time between a failed check or transfer and the next attempt, in seconds.
        Reload "max-retry-s" max_retry_s: Option<WholeNumber<1, { i32::MAX as u32 }>> = "1209600";

        /// The minimum time without contact to a primary after which the zone expires, in seconds.
        ///
        /// A primary that is a secondary itself may report an earlier expiry in the EXPIRE option (RFC 7314), which then applies. Otherwise
        /// servers that are secondaries of each other would keep a zone for ever.
        Reload "min-expire-s" min_expire_s: Option<WholeNumber<1, { i32::MAX as u32 }>> = "3";

        /// The maximum time without contact to a primary after which the zone expires, in seconds.
        ///
        /// An EXPIRE time that is not longer than REFRESH and RETRY together is raised to that (RFC 1912 2.2), but not above this
        /// maximum. With a lower one, the zone expires between two checks.
        Reload "max-expire-s" max_expire_s: Option<WholeNumber<1, { i32::MAX as u32 }>> = "14515200";

        /// How many replaced versions of the zone to keep in memory for `zonda zone rollback`.
        ///
        /// Every change replaces a version, so a zone with many updates keeps only its last moments. Versions share what they
        /// have in common.
        Reload "keep-versions" keep_versions: Option<WholeNumber<0, 1000>> = "0";

        /// When the digest of the zone must match its ZONEMD record (RFC 8976) before a new version is served.
        ///
        /// With `full-transfers`, whole zones are checked: those of zone files and of AXFR. With `always`, changes by IXFR and
        /// dynamic update are checked as well, each at the cost of a digest over the whole zone. A version whose digest is
        /// wrong, or whose ZONEMD record has another serial, is refused. After an IXFR with a wrong digest, a secondary requests
        /// the whole zone. A zone without ZONEMD records passes.
        ///
        /// In every mode, a change of an unsigned zone that leaves its ZONEMD record stale removes the record, and the log says so.
        Reload "zonemd" zonemd: Option<ZonemdMode> = r#""off""#;

        /// What happens to a version of a signed zone with a bad signature: `off` checks none, `warn` publishes the version with a
        /// warning, `refuse` keeps the version served before.
        ///
        /// A signature is bad if no DNSKEY record of the zone verifies it, or if it has expired or will expire within
        /// `dnssec-min-validity-s`. One good signature for each RRset is enough (RFC 6840 5.11). Algorithms 8, 10, 13, 14 and
        /// 15 are checked; a zone that has only others passes with a warning. An unsigned zone passes unless the previous version was
        /// signed.
        Reload "dnssec-check" dnssec_check: Option<DnssecCheck> = r#""off""#;

        /// Which signatures `dnssec-check` verifies: those of the SOA, NS and DNSKEY records of the apex, or all of the zone.
        ///
        /// `apex` takes a few signatures and finds what breaks a whole zone: expired signatures, lost keys. With `zone` every
        /// signature is verified for every version, even one that changes a single record.
        Reload "dnssec-scope" dnssec_scope: Option<DnssecScope> = r#""apex""#;

        /// How long the signatures that `dnssec-check` verifies must still be valid, in seconds.
        Reload "dnssec-min-validity-s" dnssec_min_validity_s: Option<WholeNumber<0, { i32::MAX as u32 }>> = "3600";

        /// A command that decides whether a new version is published: the program and its arguments.
        ///
        /// Example: `["named-checkzone", "-q", "{zone}", "{file}"]`. No shell is involved.
        ///
        /// It gets the zone as text on standard input. In arguments, `{zone}` stands for the zone's name, and `{file}` for a
        /// temporary file with the text, in the folder `checks` of the state-dir; then standard input is empty. `ZONDA_ZONE` and
        /// `ZONDA_SERIAL` are in the environment. Exit status 0 publishes the version. Any other keeps the version served before, and the
        /// beginning of the command's standard error is in the log and in `zonda zone status`.
        ///
        /// It runs for zone files, transfers and updates, after all other checks, as the user that zonda runs as. Its process group is killed after
        /// `check-timeout-s`, and when the command has ended. A few commands run at once; zones with another command, or none, do not wait.
        Reload "check-command" check_command: Option<Vec<BoundedText<4096>>> = "[]";

        /// How long `check-command` may take, in seconds.
        Reload "check-timeout-s" check_timeout_s: Option<WholeNumber<1, 86_400>> = "60";

        /// A file to write the zone to as text, now and whenever it has changed; `{name}` stands for the zone's name.
        ///
        /// For secondaries, members of catalogs and zones with dynamic updates. The file is replaced as a whole, at most every five
        /// seconds. Its folder must be writable: the new file is called `.NAME.new` until it is complete. `{name}` is `root` for the root,
        /// and `\114oot` for the zone `root.`. A secondary may have the same path as `file` and `write-file`: then it starts with its last
        /// version.
        ///
        /// The text begins with a comment that names the zone. A file without that comment is not replaced, because zonda never changes a
        /// zone file: the log says so until it is moved away. No other zone may have the same path as `file` or `write-file`, so a template
        /// needs `{name}` in it.
        Reload "write-file" write_file: Option<FilePath> = "";

        /// The serial of a changed zone: `keep` takes that of the file, `increment` the next one, `date` YYYYMMDDnn, and `unix` the time in
        /// seconds since 1970.
        ///
        /// A zone file with a later serial than the one served keeps it with every policy. A changed file without a later serial is served
        /// with a serial by the policy; the file itself is not changed. With `keep` it is served with its own serial and a warning,
        /// because secondaries do not transfer it. An update that sets no later serial increments it with `keep`, too. Only the signer
        /// can change the serial of a signed zone: there every policy is `keep`. The other policies need `state-dir`: without it, a restart
        /// serves the serial of the file, which may be an earlier one.
        Reload "serial-policy" serial_policy: Option<SerialSetting> = r#""keep""#;

        /// Makes the zone a catalog (RFC 9432): with `consume` its member zones are served, with `produce` it lists the zones of
        /// this server that name it as their `catalog-member`.
        ///
        /// A consumed catalog is transferred or read from a file like any zone, and its members are added and removed as it changes. A
        /// zone of the configuration wins over a member of the same name. Of two catalogs that list a zone, the first keeps it
        /// unless its `coo` property hands the zone over. A broken catalog leaves the members as they are. `zonda zone status`
        /// shows why a member is not served. A produced catalog has neither `file` nor `primaries`.
        Reload "catalog" catalog: Option<CatalogRole> = "";

        /// The templates of a catalog's member zones by their group; members of other groups take `[template.default]`.
        ///
        /// For a zone with `catalog = "consume"`. A template of members has `primaries`, or a `file` with `{name}` in it.
        Reload "catalog-templates" catalog_templates: Option<CatalogTemplates> = "{}";

        /// The catalog of this server that lists this zone: a zone with `catalog = "produce"`.
        ///
        /// A zone that moves to another produced catalog gets no `coo` property (RFC 9432 4.4.1): consumers remove it and add it again.
        Reload "catalog-member" catalog_member: Option<DomainName> = "";

        /// The group of this zone in that catalog (RFC 9432 4.3.2), for consumers that treat groups differently.
        Reload "catalog-group" catalog_group: Option<BoundedText<255>> = "";

        /// Whether to load a zone with records that break a rule of their RFC but can be served.
        ///
        /// With `lenient` such a record is a warning. With `strict` it is an error: the zone is not loaded, and the version
        /// served before stays. `docs/manual/checks.md` (`zonda check --list`) lists all checks.
        Reload "checks" checks: Option<CheckSetting> = r#""lenient""#;
    }
}
