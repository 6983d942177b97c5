//! A zone as a plain map with linear searches: slow and simple.

use std::collections::BTreeMap;

use wire::message::Record;
use wire::{Class, Name, NameRef, Rtype};

/// The RRsets of one name, by type.
pub type Node = BTreeMap<Rtype, RRset>;

/// A zone.
pub struct Zone {
    /// The apex.
    pub apex: Name,
    /// All owners except hashed ones.
    names: BTreeMap<Name, Node>,
    /// The owners of NSEC3 records, with these and their signatures. RFC 5155 7.2.8: they exist for denial only; a name with
    /// other records is in `names` too.
    pub hashed: BTreeMap<Name, Node>,
}

/// The records of one owner and type.
#[derive(Clone, Debug, Default)]
pub struct RRset {
    /// The TTL of all of them (RFC 2181 5.2).
    pub ttl: u32,
    /// Their data, each once (RFC 2181 5).
    pub rdatas: Vec<Vec<u8>>,
}

/// Where a search for a name ends (RFC 1034 4.3.2 step 3).
pub enum Place {
    /// Step 3b: at or below this zone cut.
    Cut(Name),
    /// RFC 6672 3.2: below the owner of a DNAME.
    BelowDname(Name),
    /// Step 3a: the name exists, possibly as an empty non-terminal.
    Exact,
    /// Step 3c: the name does not exist, the wildcard below its closest encloser does (RFC 4592 3.3.1).
    Wildcard { encloser: Name, source: Name },
    /// Step 3c: neither the name nor that wildcard exists.
    Nowhere { encloser: Name },
}

impl Zone {
    /// The zone of these records.
    pub fn new(apex: Name, records: &[Record]) -> Zone {
        let mut zone = Zone { apex, names: BTreeMap::new(), hashed: BTreeMap::new() };
        for record in records {
            let is_hashed =
                record.rtype == Rtype::NSEC3 || record.rtype == Rtype::RRSIG && covered(&record.rdata) == Rtype::NSEC3;
            let names = if is_hashed { &mut zone.hashed } else { &mut zone.names };
            let set = names.entry(record.owner.clone()).or_default().entry(record.rtype).or_default();
            set.ttl = record.ttl;
            if !set.rdatas.contains(&record.rdata) {
                set.rdatas.push(record.rdata.clone());
            }
        }
        zone
    }

    /// Searches `qname`, which is at or below the apex, from the apex down.
    pub fn find(&self, qname: &Name, qtype: Rtype) -> Place {
        for name in path(&self.apex, qname) {
            if !self.exists(&name) {
                let encloser = parent(&name);
                let source = child(b"*", &encloser);
                return match self.exists(&source) {
                    true => Place::Wildcard { encloser, source },
                    false => Place::Nowhere { encloser },
                };
            }
            // RFC 4035 3.1.4.1: at the cut itself the parent's side answers for DS.
            if self.is_cut(&name) && !(name == *qname && qtype == Rtype::DS) {
                return Place::Cut(name);
            }
            if name != *qname && self.set(&name, Rtype::DNAME).is_some() {
                return Place::BelowDname(name);
            }
        }
        Place::Exact
    }

    /// Whether the name or one below it has records (RFC 4592 2.2.2, RFC 8020 2).
    pub fn exists(&self, name: &Name) -> bool {
        self.names.keys().any(|owner| owner.as_ref().is_at_or_below(name.as_ref()))
    }

    /// Whether the name is a zone cut (RFC 1034 4.2.1).
    pub fn is_cut(&self, name: &Name) -> bool {
        *name != self.apex && self.set(name, Rtype::NS).is_some()
    }

    /// Whether the name is at or below a cut, so that its addresses are glue. The topmost cut or DNAME decides.
    pub fn is_cut_off(&self, name: &Name) -> bool {
        let redirects = |ancestor: &Name| ancestor != name && self.set(ancestor, Rtype::DNAME).is_some();
        let path = path(&self.apex, name);
        path.iter().find(|it| self.is_cut(it) || redirects(it)).is_some_and(|it| self.is_cut(it))
    }

    /// RFC 6672 2.4: whether the name is below a DNAME, so that its records are never answered.
    pub fn is_redirected(&self, name: &Name) -> bool {
        let path = path(&self.apex, name);
        let above = &path[..path.len() - 1];
        !self.is_cut_off(name) && above.iter().any(|ancestor| self.set(ancestor, Rtype::DNAME).is_some())
    }

    /// The RRsets of the name; none for an empty non-terminal.
    pub fn node(&self, name: &Name) -> Option<&Node> {
        self.names.get(name)
    }

    /// The RRset of this name and type.
    pub fn set(&self, name: &Name, rtype: Rtype) -> Option<&RRset> {
        self.names.get(name)?.get(&rtype)
    }

    /// RFC 4343 4.1: the owner in the case of its first record, the apex in the case of the apex's first record.
    pub fn spelling(&self, owner: &Name, is_hashed: bool) -> Option<Name> {
        let names = if is_hashed { &self.hashed } else { &self.names };
        let [apex, owner] = [(&self.names, &self.apex), (names, owner)].map(|(names, name)| names.get_key_value(name));
        let (apex, owner) = (apex?.0.wire(), owner?.0.wire());
        Name::from_wire(&[&owner[..owner.len() - apex.len()], apex].concat()).ok()
    }

    /// All owner names in canonical order.
    pub fn owners(&self) -> impl Iterator<Item = &Name> {
        self.names.keys()
    }

    /// The records of type `rtype` in `node`, under the name `owner`, with their signatures if `signed`.
    pub fn records(node: &Node, rtype: Rtype, owner: &Name, signed: bool) -> Vec<Record> {
        // RFC 4034 3: the TTL of an RRSIG is that of the set it covers.
        let ttl = |rtype, rdata: &[u8]| match rtype {
            Rtype::RRSIG => node[&covered(rdata)].ttl,
            _ => node[&rtype].ttl,
        };
        let rdatas = |rtype| node.get(&rtype).into_iter().flat_map(|set| &set.rdatas);
        let record = |rtype, rdata: &Vec<u8>| Record {
            owner: owner.clone(),
            rtype,
            class: Class::IN,
            ttl: ttl(rtype, rdata),
            rdata: rdata.clone(),
        };
        let covers = |rdata: &&Vec<u8>| signed && covered(rdata) == rtype;
        let signatures = rdatas(Rtype::RRSIG).filter(covers).map(|rdata| record(Rtype::RRSIG, rdata));
        rdatas(rtype).map(|rdata| record(rtype, rdata)).chain(signatures).collect()
    }
}

/// The type that an RRSIG covers (RFC 4034 3.1.1).
pub fn covered(rrsig: &[u8]) -> Rtype {
    Rtype(u16::from_be_bytes([rrsig[0], rrsig[1]]))
}

//----------- names ------------------------------------------------------------

/// The names from `top` down to `name`, which is at or below it; both included.
pub fn path(top: &Name, name: &Name) -> Vec<Name> {
    let mut path = vec![name.clone()];
    while path[path.len() - 1] != *top {
        path.push(parent(&path[path.len() - 1]));
    }
    path.reverse();
    path
}

/// The name without its first label.
pub fn parent(name: &Name) -> Name {
    name.as_ref().parent().map(NameRef::to_owned).expect("the root has no parent, and nobody asks for it")
}

/// The name one label below `parent`; the caller knows that it is not too long.
pub fn child(label: &[u8], parent: &Name) -> Name {
    join(&[&[label.len() as u8], label].concat(), parent).expect("a wildcard or a next closer name fits")
}

/// The labels `front` before `back`, unless that makes more than 255 octets.
pub fn join(front: &[u8], back: &Name) -> Option<Name> {
    Name::from_wire(&[front, back.wire()].concat()).ok()
}
