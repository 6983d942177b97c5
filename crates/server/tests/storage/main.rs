//! The store and the storage thread on a simulated disk: crashes, damage, failing and full disks.

mod commit;
mod commit_crash;
mod crash;
mod damage;
mod history_limit;
mod simulated_disk;
mod versions;
mod world;
