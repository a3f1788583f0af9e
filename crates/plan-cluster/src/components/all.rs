//! The table of components.

use super::component::Component;
use super::{apiserver, controller_manager, scheduler};

/// In the order in which changes are made.
pub static ALL: [&Component; 3] = [&apiserver::COMPONENT, &controller_manager::COMPONENT, &scheduler::COMPONENT];

#[cfg(test)]
mod tests {
    use super::*;
    use berth_render::{Binary, KUBERNETES, Role};
    use std::collections::BTreeSet;

    #[test]
    fn every_binary_but_etcd_is_in_the_table_and_no_name_is_used_twice() {
        let all: Vec<_> = ALL.iter().map(|c| c.binary).chain([Binary::Etcd]).collect();
        assert_eq!(BTreeSet::from_iter(all), BTreeSet::from(Binary::ALL));
        for of in [Component::name, Component::field, |c: &Component| c.secret] {
            assert_eq!(ALL.iter().map(|c| of(c)).collect::<BTreeSet<_>>().len(), ALL.len());
        }
        let programs: Vec<_> = KUBERNETES.programs.iter().map(|(binary, _)| *binary).collect();
        assert_eq!(ALL.map(|c| c.binary).to_vec(), programs);
        assert!(KUBERNETES.programs.iter().enumerate().all(|(n, (_, role))| (*role == Role::Api) == (n == 0)));
    }
}
