//! The store on a simulated disk: crashes, damage, failing and full disks.

mod crash;
mod damage;
mod simulated_disk;
mod world;
