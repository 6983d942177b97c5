//! The name servers of a zone that are to be notified of its versions (`notify-ns`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{NameRef, Rtype};
use zone::Zone;

use super::ZoneRegistry;

/// More addresses are ignored: a zone file must not make this server send floods.
const MAX_ADDRESSES: usize = 64;

impl ZoneRegistry {
    /// RFC 1996 2.1: the addresses of the NS targets of this version, except the primary, which the MNAME field of the SOA record
    /// names. Addresses are looked up in the zones of this server only: it asks nobody.
    pub(super) fn name_server_addresses(&self, version: &Zone) -> Vec<IpAddr> {
        let soa = version.soa_rdata();
        let mut addresses = Vec::new();
        for target in version.rdatas(version.apex(), Rtype::NS) {
            let Ok(target) = NameRef::from_wire(&target) else { continue };
            let is_primary =
                wire::name::skip_name(&soa, 0).is_some_and(|end| soa[..end].eq_ignore_ascii_case(target.wire()));
            if !is_primary {
                self.add_addresses(target, &mut addresses);
            }
        }
        addresses.truncate(MAX_ADDRESSES);
        addresses
    }

    /// The addresses of a name in the nearest enclosing zone of this server, glue records included.
    fn add_addresses(&self, name: NameRef<'_>, addresses: &mut Vec<IpAddr>) {
        let lower = name.to_owned().to_lowercase();
        let mut ancestors = std::iter::successors(Some(lower.as_ref()), |name| name.parent());
        let Some(zone) = ancestors.find_map(|apex| self.latest(self.find(apex)?)) else { return };
        let v4 = zone.rdatas(lower.as_ref(), Rtype::A);
        let v6 = zone.rdatas(lower.as_ref(), Rtype::AAAA);
        let v4 = v4.iter().filter_map(|rdata| Some(Ipv4Addr::from(*rdata.first_chunk::<4>()?).into()));
        let v6 = v6.iter().filter_map(|rdata| Some(Ipv6Addr::from(*rdata.first_chunk::<16>()?).into()));
        for address in v4.chain(v6) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use wire::Name;
    use zone::load::load_text;

    use super::*;
    use crate::config::ZonePolicy;
    use crate::config::reader::ConfigReader;
    use crate::zone_id::ZoneId;
    use crate::zones::ChangeHooks;
    use crate::zones::registry::tests::Bench;

    struct Recorder(Arc<Mutex<Vec<Vec<IpAddr>>>>);

    impl ChangeHooks for Recorder {
        fn published(&mut self, _: ZoneId, _: &Zone, _: &Arc<ZonePolicy>, name_servers: &[IpAddr]) {
            self.0.lock().expect("no panic").push(name_servers.to_vec());
        }
    }

    fn zone(apex: &str, records: &str) -> Zone {
        let apex: Name = apex.parse().expect("a name");
        let text = format!("@ 60 SOA NS1.hidden.example. host 1 1 1 1 1\n{records}");
        load_text(apex.as_ref(), text.as_bytes()).zone.expect("a good zone")
    }

    #[test]
    fn rfc_1996_2_1_the_name_servers_but_the_primary_are_notified_if_so_configured() {
        let announced = Arc::new(Mutex::new(Vec::new()));
        let mut bench = Bench::new(&[]);
        bench.zones.set_hooks(Box::new(Recorder(announced.clone())));
        let mut publish = |notify_ns: bool, apex: &str, records: &str| {
            let mut reader = ConfigReader::default();
            reader.add_argument(apex.parse().expect("a name"), std::path::Path::new("file"));
            let mut config = reader.finish().expect("no mistakes").zones.remove(0);
            let policy = ZonePolicy { notify_ns, ..ZonePolicy::clone(&config.source.policy) };
            config.source.policy = Arc::new(policy);
            let id = bench.zones.add(config).expect("it is new");
            bench.zones.replace(id, zone(apex, records), &[]);
            bench.zones.publish();
            bench.zones.step(Instant::now());
            announced.lock().expect("no panic").pop().expect("it is announced")
        };
        let hosts = "@ 60 NS ns1\nns1 60 A 192.0.2.1\nns2 60 A 192.0.2.2\nns2 60 AAAA 2001:db8::2\nsub 60 NS ns.sub\nns.sub 60 A 192.0.2.3\n";
        assert_eq!(publish(false, "hidden.example", hosts), [] as [IpAddr; 0]);
        let servers = "@ 60 NS NS2.hidden.example.\n@ 60 NS ns1.hidden.example.\n@ 60 NS ns.sub.hidden.example.\n@ 60 NS elsewhere.\n@ 60 NS ns\nns 60 A 192.0.2.2\n";
        let mut found = publish(true, "a.example", servers);
        found.sort();
        let expected: Vec<IpAddr> =
            ["192.0.2.2", "192.0.2.3", "2001:db8::2"].iter().map(|text| text.parse().expect("an address")).collect();
        assert_eq!(found, expected, "each once; not the primary, and no name that is not served here");
    }
}
