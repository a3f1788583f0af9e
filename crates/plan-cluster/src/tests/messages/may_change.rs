//! A situation of what a platform's admission may change.

use super::*;
use crate::tests::may_change::{declare, rewrite};

pub(super) const DECLARED: &[Case] =
    &[("admission changes a Deployment as the chart's `admission.mayChange` allows it", |f| {
        declare(f);
        rewrite(f);
    })];
