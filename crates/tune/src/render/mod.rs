//! The advice as text, as Markdown, and as files.

mod evidence;
pub mod files;
pub mod manual;
pub mod notes;
pub mod table;
