//! Two catalogs that an operator writes by hand, and one edge consumes: members come and go, move between groups, get other labels, and
//! change their owner, with the `coo` property (RFC 9432 4.4.1) or without.

use std::path::{Path, PathBuf};

use super::{replace_text, zone_text};
use crate::simulated_disk::Random;

/// The catalogs, and the zones that they may list.
pub const LISTS: [&str; 2] = ["one.example", "two.example"];
pub const MEMBERS: [&str; 3] = ["m0.example", "m1.example", "m2.example"];
/// The groups, one for each catalog: there, its members are served without transfers to clients.
pub const GROUPS: [&str; 2] = ["x", "y"];

/// What a catalog says of a member.
#[derive(Clone, Copy, Debug)]
struct Listing {
    label: u32,
    /// The number of its group.
    group: usize,
    /// Whether the other catalog may have it.
    is_handed_over: bool,
}

pub struct Lists {
    folder: PathBuf,
    serials: [u32; 2],
    /// By member and catalog.
    listings: [[Option<Listing>; 2]; 3],
    last_label: u32,
}

/// How a member must be served: by the transfers that clients may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    NotServed,
    Open,
    WithoutTransfers,
}

impl Lists {
    pub fn new(folder: &Path) -> Lists {
        let mut lists =
            Lists { folder: folder.to_owned(), serials: [0; 2], listings: Default::default(), last_label: 0 };
        (0..2).for_each(|list| lists.write(list));
        lists
    }

    /// Changes what the catalogs say of one member.
    pub fn change(&mut self, random: &mut Random) {
        let member = &mut self.listings[random.below(MEMBERS.len() as u64) as usize];
        let first = random.below(2) as usize;
        let first = if member[first].is_none() && member[1 - first].is_some() { 1 - first } else { first };
        self.last_label += 1;
        let new = Listing { label: self.last_label, group: random.below(2) as usize, is_handed_over: false };
        match (member[first], member[1 - first]) {
            (None, _) => member[first] = Some(new),
            (Some(listing), None) => match random.below(5) {
                0 => member[first] = None,
                1 => member[first] = Some(Listing { label: new.label, ..listing }),
                2 => member[first] = Some(Listing { group: new.group, ..listing }),
                kind => {
                    member[first] = Some(Listing { is_handed_over: kind == 3, ..listing });
                    member[1 - first] = Some(new);
                }
            },
            (Some(listing), Some(other)) if !listing.is_handed_over && !other.is_handed_over && random.one_in(2) => {
                member[first] = Some(Listing { is_handed_over: true, ..listing });
            }
            (Some(_), Some(other)) => member[if other.is_handed_over { 1 - first } else { first }] = None,
        }
        (0..2).for_each(|list| self.write(list));
    }

    /// Writes the next version of a catalog (RFC 9432 4).
    fn write(&mut self, list: usize) {
        self.serials[list] += 1;
        let mut text = zone_text(self.serials[list]) + "version TXT \"2\"\n";
        for (member, listings) in MEMBERS.iter().zip(&self.listings) {
            let Some(Listing { label, group, is_handed_over }) = listings[list] else { continue };
            text += &format!("m{label}.zones PTR {member}.\ngroup.m{label}.zones TXT {}\n", GROUPS[group]);
            if is_handed_over {
                text += &format!("coo.m{label}.zones PTR {}.\n", LISTS[1 - list]);
            }
        }
        replace_text(&self.folder, LISTS[list], &text);
    }

    /// How a member may be served in the end. Of two catalogs, the first that listed it has it, unless that hands it over.
    pub fn expected(&self, member: usize) -> Vec<Service> {
        let service = |(list, listing): (usize, Listing)| match listing.group == list {
            true => Service::WithoutTransfers,
            false => Service::Open,
        };
        let listings = self.listings[member].iter().enumerate();
        let listings: Vec<_> = listings.filter_map(|(list, listing)| Some((list, (*listing)?))).collect();
        let mut owners: Vec<_> = listings.iter().filter(|(_, listing)| !listing.is_handed_over).copied().collect();
        if listings.len() == 1 {
            owners = listings;
        }
        match owners.is_empty() {
            true => vec![Service::NotServed],
            false => owners.into_iter().map(service).collect(),
        }
    }
}
