//! Modules of one crate do not import each other in circles: of two modules with the same parent, only one uses the other.
//!
//! A module and those below it count as one, since children share the private items of their parents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{Visit, visit_item_mod, visit_path};
use syn::{Item, ItemMod, ItemUse, UseTree};

use super::workspace;

#[test]
fn modules_do_not_import_each_other_in_circles() {
    for crate_name in ["wire", "zone", "answer", "netio", "tune", "server", "load"] {
        let modules = Modules::of(&workspace().join("crates").join(crate_name).join("src/lib.rs"));
        assert!(modules.paths.len() > 5, "only {} modules of {crate_name} were found", modules.paths.len());
        let cycles = modules.cycles();
        assert!(cycles.is_empty(), "crate {crate_name}:\n{}", cycles.join("\n"));
    }
}

#[test]
fn an_import_cycle_is_detected() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        ("use crate::b::deep::B;", "pub mod deep { pub struct B; } pub use crate::a::A;", true),
        ("use super::B;", "fn f() { crate::a::f() } pub struct B;", true),
        ("use crate::b::B;", "#[cfg(test)] mod tests { use crate::a::A; }", false),
        ("use crate::b::B;", "use crate::Root; pub struct B;", false),
    ];
    for (a, b, is_cycle) in cases {
        let sources = [("lib.rs", "mod a; mod b; pub use b::B; pub struct Root;"), ("a.rs", a), ("b.rs", b)];
        sources.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).expect("a file"));
        let cycles = Modules::of(&folder.path().join("lib.rs")).cycles();
        assert_eq!(cycles.len(), usize::from(is_cycle), "{a} {b}: {cycles:?}");
    }
}

/// The path of a module from the root of its crate, which has the empty path.
type ModulePath = Vec<String>;

/// The modules of a crate without those for tests only, and the paths that each of them names.
#[derive(Default)]
struct Modules {
    /// Every path that a module names.
    paths: BTreeMap<ModulePath, BTreeSet<Vec<String>>>,
    /// What each module imports: the name there, and the path.
    imports: BTreeMap<(ModulePath, String), Vec<String>>,
    /// The module that is being read, and the folder of its children.
    current: ModulePath,
    folder: PathBuf,
}

impl Modules {
    fn of(root: &Path) -> Modules {
        let folder = root.parent().expect("a file has a folder").to_owned();
        let mut modules = Modules { folder, ..Modules::default() };
        modules.read_file(root);
        modules
    }

    fn read_file(&mut self, path: &Path) {
        let file = syn::parse_file(&super::read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.paths.entry(self.current.clone()).or_default();
        self.visit_file(&file);
    }

    fn add_path(&mut self, path: Vec<String>) {
        self.paths.entry(self.current.clone()).or_default().insert(path);
    }

    fn add_use(&mut self, tree: &UseTree, mut prefix: Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_use(&path.tree, prefix);
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.add_use(item, prefix.clone())),
            UseTree::Glob(_) => self.add_path(prefix),
            UseTree::Name(_) | UseTree::Rename(_) => {
                let (from, name) = match tree {
                    UseTree::Rename(rename) => (&rename.ident, &rename.rename),
                    UseTree::Name(name) => (&name.ident, &name.ident),
                    _ => unreachable!("matched above"),
                };
                if from != "self" {
                    prefix.push(from.to_string());
                }
                let name = if name == "self" { prefix.last().cloned().unwrap_or_default() } else { name.to_string() };
                self.imports.insert((self.current.clone(), name), prefix.clone());
                self.add_path(prefix);
            }
        }
    }

    /// The module that `path` leads to from `module`; `None` if it leads out of the crate.
    fn target(&self, module: &ModulePath, path: &[String], depth: usize) -> Option<ModulePath> {
        // Imports of imports: more would be a loop.
        const MAX_DEPTH: usize = 8;
        let mut target = module.clone();
        for (index, name) in path.iter().enumerate() {
            let child: ModulePath = target.iter().chain([name]).cloned().collect();
            match name.as_str() {
                "crate" => target.clear(),
                "super" => _ = target.pop(),
                "self" => (),
                _ if self.paths.contains_key(&child) => target = child,
                // A name alone is an item of the module itself, or an import that counts where it is made.
                _ if index == 0 => return None,
                _ => {
                    let import = self.imports.get(&(target.clone(), name.clone())).filter(|_| depth < MAX_DEPTH);
                    let imported = import.and_then(|import| self.target(&target, import, depth + 1));
                    return Some(imported.unwrap_or(target));
                }
            }
        }
        Some(target)
    }

    /// Each pair of children of one module of which one uses the other, with an example.
    fn edges(&self) -> BTreeMap<ModulePath, BTreeMap<(String, String), String>> {
        let mut edges: BTreeMap<ModulePath, BTreeMap<(String, String), String>> = BTreeMap::new();
        for (module, paths) in &self.paths {
            for path in paths {
                let Some(target) = self.target(module, path, 0) else { continue };
                let shared = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                    let example = format!("{} uses {}", module.join("::"), path.join("::"));
                    let siblings = edges.entry(module[..shared].to_vec()).or_default();
                    siblings.entry((from.clone(), to.clone())).or_insert(example);
                }
            }
        }
        edges
    }

    /// A description of one cycle below each module that has any.
    fn cycles(&self) -> Vec<String> {
        let describe = |(parent, uses): (ModulePath, BTreeMap<(String, String), String>)| {
            let names: BTreeSet<&String> = uses.keys().map(|(from, _)| from).collect();
            let cycle = names.into_iter().find_map(|start| find_cycle(&uses, start))?;
            let examples: Vec<&str> =
                cycle.windows(2).map(|pair| &*uses[&(pair[0].clone(), pair[1].clone())]).collect();
            Some(format!("{} in `{}`: {}", cycle.join(" -> "), parent.join("::"), examples.join("; ")))
        };
        self.edges().into_iter().filter_map(describe).collect()
    }
}

/// A path from `start` back to it.
fn find_cycle(uses: &BTreeMap<(String, String), String>, start: &String) -> Option<Vec<String>> {
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![vec![start.clone()]]);
    while let Some(path) = waiting.pop() {
        for (_, to) in uses.keys().filter(|(from, _)| Some(from) == path.last()) {
            let longer: Vec<String> = path.iter().chain([to]).cloned().collect();
            if to == start {
                return Some(longer);
            }
            if seen.insert(to) {
                waiting.push(longer);
            }
        }
    }
    None
}

impl<'f> Visit<'f> for Modules {
    fn visit_item_mod(&mut self, item: &'f ItemMod) {
        self.current.push(item.ident.to_string());
        let parent = self.folder.join(item.ident.to_string());
        let parent = std::mem::replace(&mut self.folder, parent);
        if item.content.is_some() {
            self.paths.entry(self.current.clone()).or_default();
            visit_item_mod(self, item);
        } else {
            let file = self.folder.with_extension("rs");
            self.read_file(&if file.exists() { file } else { self.folder.join("mod.rs") });
        }
        self.folder = parent;
        self.current.pop();
    }

    fn visit_item(&mut self, item: &'f Item) {
        let is_test = |attributes: &[syn::Attribute]| {
            let is_test = |attribute: &syn::Attribute| {
                attribute.path().is_ident("cfg")
                    && attribute.parse_args::<syn::Ident>().is_ok_and(|what| what == "test")
            };
            attributes.iter().any(is_test)
        };
        if !matches!(item, Item::Mod(ItemMod { attrs, .. }) if is_test(attrs)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'f ItemUse) {
        self.add_use(&item.tree, Vec::new());
    }

    fn visit_path(&mut self, path: &'f syn::Path) {
        if path.segments.len() > 1 {
            self.add_path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit_path(self, path);
    }
}
