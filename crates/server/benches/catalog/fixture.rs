//! A registry with consumed catalogs, and versions of these: for the benchmark, and for the tests of `catalogs`.

use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use server::catalogs::{CatalogEvent, Catalogs};
use server::config::reader::ConfigReader;
use server::config::{Config, Server};
use server::zones::ZoneRegistry;
use wire::{Name, Rtype};
use zone::Zone;
use zone::catalog::{self, CatalogMember};
use zone::zone_builder::{ZoneBuilder, ZoneBuilderOptions};

/// A registry and its catalogs as the writer has them; what their jobs send comes out of the channel.
pub fn configured(config: &str) -> (ZoneRegistry, Catalogs, Receiver<CatalogEvent>) {
    let file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
    std::fs::write(file.path(), config).expect("space for the configuration");
    let mut reader = ConfigReader::default();
    reader.read_file(file.path());
    let Config { zones: configured, templates, catalogs: names, .. } = reader.finish().expect("no mistakes");
    let mut zones = ZoneRegistry::new(&Server::default(), |_| (), |_| ()).expect("random numbers");
    zones.configure(configured);
    zones.step(Instant::now());
    let (sender, events) = channel();
    let mut catalogs = Catalogs::new(move |event| _ = sender.send(event));
    catalogs.configure(&templates, &names, &zones);
    (zones, catalogs, events)
}

pub fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// A version of a catalog.
pub fn version(catalog: &str, serial: u32, members: impl IntoIterator<Item = CatalogMember>) -> Zone {
    let apex = name(catalog);
    let mut builder = ZoneBuilder::new(apex.as_ref(), ZoneBuilderOptions::default());
    builder.push(apex.as_ref(), Rtype::SOA, 0, &catalog::soa_rdata(serial));
    let members = members.into_iter().flat_map(|member| catalog::member_records(apex.as_ref(), &member));
    for (owner, rtype, rdata) in catalog::apex_records(apex.as_ref()).into_iter().chain(members) {
        builder.push(owner.as_ref(), rtype, 0, &rdata);
    }
    builder.finish().expect("a valid catalog").0
}
