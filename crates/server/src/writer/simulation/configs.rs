//! The configurations of the machines: a primary, a secondary of it, an edge with a catalog, and one without.

/// Before the configuration of each machine.
pub(super) const KEYS: &str = r#"
[[key]]
name = "transfer."
algorithm = "hmac-sha256"
secret = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
[[key]]
name = "update."
algorithm = "hmac-sha256"
secret = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
"#;
const PRIMARY_CONFIG: &str = r#"
[server]
state-dir = "FOLDER"
[template.default]
max-journal-bytes = 700
file = "FOLDER/{name}.zone"
allow-update = [{ key = "update." }, { address = "10.0.0.99", names = ["client2.a.example", "client3.b.example"] }]
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
notify = [{ address = "10.0.0.2", key = "transfer." }, { address = "10.0.0.4", key = "transfer." }]
catalog-member = "catalog.example."
[template.catalog]
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
notify = [{ address = "10.0.0.2", key = "transfer." }]
[[zone]]
name = "a.example"
[[zone]]
name = "b.example"
[[zone]]
name = "catalog.example"
template = "catalog"
catalog = "produce"
[template.listed]
file = "FOLDER/{name}.zone"
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
notify = [{ address = "10.0.0.3", key = "transfer." }]
[[zone]]
name = "one.example"
template = "listed"
[[zone]]
name = "two.example"
template = "listed"
[[zone]]
name = "m0.example"
template = "listed"
[[zone]]
name = "m1.example"
template = "listed"
[[zone]]
name = "m2.example"
template = "listed"
"#;
const MIDDLE_CONFIG: &str = r#"
[server]
state-dir = "FOLDER"
[template.default]
max-journal-bytes = 2000
forward-updates = true
primaries = [{ address = "10.0.0.1", key = "transfer." }]
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
notify = [{ address = "10.0.0.3", key = "transfer." }, { address = "10.0.0.4", key = "transfer." }]
[[zone]]
name = "a.example"
[[zone]]
name = "b.example"
[[zone]]
name = "catalog.example"
"#;
const CATALOG_EDGE_CONFIG: &str = r#"
[server]
state-dir = "FOLDER"
[template.default]
primaries = [{ address = "10.0.0.2", key = "transfer." }, { address = "10.0.0.1", key = "transfer." }]
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
[template.without-transfers]
primaries = [{ address = "10.0.0.1", key = "transfer." }]
[[zone]]
name = "catalog.example"
catalog = "consume"
[[zone]]
name = "one.example"
catalog = "consume"
catalog-templates = { x = "without-transfers" }
[[zone]]
name = "two.example"
catalog = "consume"
catalog-templates = { y = "without-transfers" }
"#;
const EDGE_CONFIG: &str = r#"
[server]
state-dir = "FOLDER"
[template.default]
forward-updates = true
primaries = [{ address = "10.0.0.2", key = "transfer." }, { address = "10.0.0.1", key = "transfer." }]
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
[[zone]]
name = "a.example"
[[zone]]
name = "b.example"
[[zone]]
name = "catalog.example"
"#;
/// The folder of the zone file of a machine that has become a primary.
pub(super) const HANDED_OVER: &str = "handed-over";
/// The template of `a.example` at the first two machines once the second is its primary.
const HANDED_OVER_TEMPLATES: [&str; 2] = [
    r#"
[template.handed-over]
max-journal-bytes = 700
primaries = [{ address = "10.0.0.2", key = "transfer." }]
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
catalog-member = "catalog.example."
"#,
    r#"
[template.handed-over]
max-journal-bytes = 2000
file = "FOLDER/handed-over/{name}.zone"
allow-update = [{ key = "update." }, { address = "10.0.0.99", names = ["client2.a.example"] }]
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
notify = [{ address = "10.0.0.1", key = "transfer." }, { address = "10.0.0.3", key = "transfer." }, { address = "10.0.0.4", key = "transfer." }]
"#,
];

/// The configuration of one of the first two machines once the second is the primary of `a.example`.
pub(super) fn handed_over(number: usize) -> String {
    let zone = "name = \"a.example\"\n";
    CONFIGS[number].replace(zone, &format!("{zone}template = \"handed-over\"\n")) + HANDED_OVER_TEMPLATES[number]
}

/// The configuration of each machine, by its number.
pub(super) const CONFIGS: [&str; 4] = [PRIMARY_CONFIG, MIDDLE_CONFIG, CATALOG_EDGE_CONFIG, EDGE_CONFIG];
