//! Compiled schemas, shared: a fleet of clusters with the same definitions compiles each of them once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use polity_cel::Rules;
use polity_core::field::{FieldError, FieldPath};
use polity_merge::schema::Schema;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A schema with its rules, ready for use.
#[derive(Debug)]
pub struct Compiled {
    pub schema: Arc<Schema>,
    pub rules: Rules,
    /// The schema as written by the user, for publication.
    pub openapi: Value,
}

/// Compiles schemas; a schema that is still in use is not compiled again.
#[derive(Debug, Clone, Default)]
pub struct Compiler {
    known: Arc<Mutex<HashMap<[u8; 32], Weak<Compiled>>>>,
}

impl Compiler {
    /// The compiled form of an `openAPIV3Schema`, or everything that is wrong with it; fields are relative to it.
    pub fn compile(&self, openapi: &Value) -> Result<Arc<Compiled>, Vec<FieldError>> {
        let text = serde_json::to_vec(openapi).expect("a JSON value serialises into memory");
        let digest: [u8; 32] = Sha256::digest(&text).into();
        let known = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&digest)
            .and_then(Weak::upgrade);
        if let Some(compiled) = known {
            return Ok(compiled);
        }
        let schema = Arc::new(Schema::parse_crd(openapi)?);
        let rules = Rules::compile(openapi, &FieldPath::root())?;
        let compiled = Arc::new(Compiled {
            schema,
            rules,
            openapi: openapi.clone(),
        });
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, weak| weak.strong_count() > 0);
        all.insert(digest, Arc::downgrade(&compiled));
        Ok(compiled)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_compiled_once_and_dropped_with_its_last_user() {
        let compiler = Compiler::default();
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
        let first = compiler.compile(&schema).unwrap();
        assert!(Arc::ptr_eq(&first, &compiler.compile(&schema).unwrap()));
        drop(first);
        compiler.compile(&json!({"type": "object"})).unwrap();
        assert!(compiler.known.lock().unwrap().len() <= 1);
    }

    #[test]
    fn compile_errors_are_returned() {
        let errors = Compiler::default()
            .compile(&json!({"type": "object", "properties": {"spec": {}}}))
            .unwrap_err();
        assert_eq!(errors[0].field, "properties[spec].type");
    }
}
