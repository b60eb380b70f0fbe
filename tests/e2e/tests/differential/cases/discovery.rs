//! Discovery. Groups and resources that the embedded server does not serve are not compared.

use crate::case::{Case, case, get};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case(
            "discovery: plain",
            [
                get("/api"),
                get("/apis/apps"),
                get("/apis/batch/v1"),
                get("/apis/networking.k8s.io"),
                get("/apis/coordination.k8s.io/v1"),
                get("/apis/policy/v1"),
                get("/apis/rbac.authorization.k8s.io/v1"),
                get("/apis/apps/v1"),
                get("/apis/apps/v1").accept("application/xml"),
            ],
        ),
        case(
            "discovery: health",
            [
                get("/healthz"),
                get("/livez"),
                get("/readyz"),
                get("/readyz/ping"),
                get("/readyz/nothing"),
            ],
        ),
    ]
}
