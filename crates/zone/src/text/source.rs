//! Where zone text is read from: files and memory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::FilePosition;

/// A zone file.
#[derive(Clone, Debug)]
pub struct Source<'a, T: ?Sized = [u8]> {
    /// As the user named the file.
    pub name: Arc<str>,
    /// Its text.
    pub bytes: &'a T,
}

/// Text that several threads read in parts.
pub trait ReadAt: Sync {
    /// The length in octets.
    fn size(&self) -> usize;

    /// Fills `buffer` with the octets from `offset` on; an error if there are fewer.
    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()>;

    /// An error if the text may have changed since it was opened. Called after all of it was read.
    fn check_unchanged(&self) -> io::Result<()> {
        Ok(())
    }
}

impl ReadAt for [u8] {
    fn size(&self) -> usize {
        self.len()
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        let octets = self.get(offset..offset + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(octets);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> usize {
        self.len()
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_at(offset, buffer)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn size(&self) -> usize {
        T::size(self)
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        T::read_at(self, offset, buffer)
    }

    fn check_unchanged(&self) -> io::Result<()> {
        T::check_unchanged(self)
    }
}

/// An included file.
pub struct IncludedFile {
    /// Its name, for messages and for the paths of files it includes.
    pub name: Arc<str>,
    /// Its device and inode: the same for the same file under another name.
    pub id: (u64, u64),
    /// Its text.
    pub text: Box<dyn ReadAt>,
}

/// Opens the file at the path of an `$INCLUDE`, which is at the given position.
pub type OpenFile<'a> = dyn Fn(&Path, &FilePosition) -> Result<IncludedFile, ErrorText> + Sync + 'a;

/// An error without a position.
#[derive(Clone, Debug)]
pub struct ErrorText {
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: &'static str,
}

/// The name of a file and its number, in order of first inclusion; the zone file is 0.
#[derive(Clone, Copy)]
pub(super) struct FileId<'a> {
    pub name: &'a Arc<str>,
    pub number: u16,
}

/// A file being read and the file that includes it.
pub(super) struct InputFile<'a> {
    pub id: FileId<'a>,
    pub text: &'a dyn ReadAt,
    pub parent: Option<&'a InputFile<'a>>,
}

impl InputFile<'_> {
    /// This file, the one that includes it, and so on up to the zone file.
    pub fn include_chain(&self) -> impl Iterator<Item = &InputFile<'_>> {
        std::iter::successors(Some(self), |file| file.parent)
    }
}
