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
/// The configuration of each machine, by its number.
pub(super) const CONFIGS: [&str; 4] = [PRIMARY_CONFIG, MIDDLE_CONFIG, CATALOG_EDGE_CONFIG, EDGE_CONFIG];
