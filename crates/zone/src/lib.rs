//! One zone's data: text in and out, the tree, building, checking, change sets.
#![forbid(unsafe_code)]
