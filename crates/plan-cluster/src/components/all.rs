//! The table of components.

use super::component::Component;
use super::{apiserver, controller_manager, scheduler};

/// In the order in which changes are made.
pub static ALL: [&Component; 3] = [&apiserver::COMPONENT, &controller_manager::COMPONENT, &scheduler::COMPONENT];

#[cfg(test)]
mod tests {
    use super::*;
    use berth_render::Binary;
    use std::collections::BTreeSet;

    #[test]
    fn every_binary_but_etcd_is_in_the_table_and_no_name_is_used_twice() {
        let all: Vec<_> = ALL.iter().map(|c| c.binary).chain([Binary::Etcd]).collect();
        assert_eq!(BTreeSet::from_iter(all), BTreeSet::from(Binary::ALL));
        for of in [Component::name, Component::field, |c: &Component| c.secret] {
            assert_eq!(ALL.iter().map(|c| of(c)).collect::<BTreeSet<_>>().len(), ALL.len());
        }
        let before = |c: &Component, first| ALL.iter().take_while(|o| o.binary != c.binary).any(|o| o.binary == first);
        assert!(ALL.iter().all(|c| c.after.is_none_or(|first| before(c, first))), "what changes first comes first");
    }
}
