//! RDATA as text: every type with a presentation form, both ways.
