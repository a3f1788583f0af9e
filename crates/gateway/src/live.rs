//! All tenants while this gateway runs: what the table says, and what is open.

use berth_contract::gateway::ClusterName;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::counts::{Sum, Traffic};
use crate::idle::Used;
use crate::table::{Ignored, Table};
use crate::tenant::Tenant;

/// So many tenants have rows of their own among the metrics; the rest is summed up.
pub(crate) const ROWS: usize = 2000;

type Names = HashMap<String, Arc<Tenant>>;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Live {
    names: RwLock<Arc<Names>>,
    tenants: Mutex<BTreeMap<ClusterName, Arc<Tenant>>>,
    ignored: Mutex<BTreeMap<Ignored, u64>>,
    others: Arc<Traffic>,
}

/// What tenants have and had, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) own: Vec<(ClusterName, Sum)>,
    /// Of all others, and of those that are gone.
    pub(crate) others: Sum,
    /// Tenants that lead somewhere now.
    pub(crate) tenants: usize,
    pub(crate) ignored: BTreeMap<Ignored, u64>,
}

impl Live {
    /// What is so from now on.
    pub(crate) fn update(&self, table: Table) {
        let mut tenants = self.tenants.lock();
        let mut before = std::mem::take(&mut *tenants);
        let mut rows = before.values().filter(|tenant| tenant.has_row).count();
        let mut names = Names::new();
        for route in &table.routes {
            let tenant = before.remove(&route.cluster).unwrap_or_else(|| {
                let has_row = rows < ROWS;
                rows += usize::from(has_row);
                Arc::new(Tenant::new(route.cluster.clone(), has_row, self.others.clone()))
            });
            tenant.update(route);
            names.extend(route.names.iter().map(|name| (name.clone(), tenant.clone())));
            tenants.insert(route.cluster.clone(), tenant);
        }
        *self.ignored.lock() = table.ignored;
        *self.names.write() = Arc::new(names);
        // Only now: whoever found it by a name is ended, too.
        for tenant in before.values() {
            tenant.end();
        }
    }

    /// Whose that name is, as [`comparable`](berth_contract::gateway::comparable) has it.
    pub(crate) fn tenant(&self, name: &str) -> Option<Arc<Tenant>> {
        let names = self.names.read().clone();
        names.get(name).cloned()
    }

    /// The use of all, also of those that may not sleep: one that may from now on was used before.
    pub(crate) fn uses(&self) -> Vec<(ClusterName, Used)> {
        let tenants = self.tenants.lock();
        tenants.values().map(|tenant| (tenant.cluster.clone(), tenant.uses.now())).collect()
    }

    pub(crate) fn rows(&self) -> Rows {
        let tenants = self.tenants.lock();
        let mut rows = Rows { others: self.others.sum(), tenants: tenants.len(), ..Rows::default() };
        for tenant in tenants.values() {
            let sum = tenant.traffic.sum();
            if tenant.has_row {
                rows.own.push((tenant.cluster.clone(), sum));
            } else {
                rows.others += sum;
            }
        }
        rows.ignored.clone_from(&self.ignored.lock());
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant::tests::{PATIENCE, route};
    use crate::tests::limits;
    use std::time::Instant;

    fn table(names: impl IntoIterator<Item = String>) -> Table {
        let routes = names.into_iter().map(|name| route(&name, &[("10.0.0.1:1", "a", true)])).collect();
        Table { routes, ..Table::default() }
    }

    #[test]
    fn a_tenant_goes_on_under_its_new_names_and_ends_with_its_service() {
        let live = Live::default();
        live.update(table(["acme".to_owned()]));
        let acme = live.tenant("acme.example.com").unwrap();
        let lease = acme.pick(&[], Instant::now(), PATIENCE).unwrap();
        let mut renamed = table(["acme".to_owned()]);
        renamed.routes[0].names = vec!["api.acme.example".to_owned()];
        live.update(renamed);
        assert!(live.tenant("acme.example.com").is_none());
        assert!(Arc::ptr_eq(&acme, &live.tenant("api.acme.example").unwrap()));
        assert_eq!(acme.pick(&[], Instant::now(), PATIENCE).unwrap().address(), lease.address());
        live.update(table([]));
        assert!(live.tenant("api.acme.example").is_none() && acme.pick(&[], Instant::now(), PATIENCE).is_err());
    }

    #[test]
    fn rows_are_bounded_and_what_was_counted_stays() {
        let live = Live::default();
        let names = |count: usize| (0..count).map(|at| format!("t{at}"));
        live.update(table(names(ROWS + 5)));
        for name in names(ROWS + 5) {
            let tenant = live.tenant(&format!("{name}.example.com")).unwrap();
            drop(tenant.admit("10.0.0.1".parse().unwrap(), &limits()).unwrap());
        }
        let rows = live.rows();
        assert_eq!((rows.own.len(), rows.others.opened, rows.tenants), (ROWS, 5, ROWS + 5));
        live.update(table([]));
        let rows = live.rows();
        assert_eq!((rows.own.len(), rows.others.opened, rows.others.open), (0, ROWS as u64 + 5, 0));
    }
}
