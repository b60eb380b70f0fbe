//! CRD and wire types, one module per API group and version, with their schemas.
