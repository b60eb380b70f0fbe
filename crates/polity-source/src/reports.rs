//! Policy reports from manifests or from a live cluster, as rows of one table.

mod rows;

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use polity_report::public::ReportGroup;
use polity_report::read::{is_report, read_report};
use serde_json::Value;

use self::rows::rows_of;
pub use self::rows::{
    Dimension, Filter, Group, Row, View, Violation, groups, result_word, severity_word,
};
use crate::manifests::{Manifests, Origin};

/// How many reports one request asks for.
const PAGE: u32 = 500;

/// Why the reports of a cluster could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReportReadError {
    #[error("cannot list {plural}")]
    List {
        plural: String,
        source: Box<kube::Error>,
    },
    #[error("cannot encode a report")]
    Encode(#[source] serde_json::Error),
    #[error("the cluster serves no kind of report")]
    NotServed,
}

/// The results of all reports that were read.
#[derive(Debug, Default)]
pub struct Gathered {
    pub rows: Vec<Row>,
    pub n_reports: usize,
    /// A sentence for each report or entry that could not be read.
    pub unreadable: Vec<String>,
}

impl Gathered {
    /// Adds the results of a report; one that cannot be read is noted.
    fn add(&mut self, object: &Value, place: &str, origin: Option<&Origin>) {
        match read_report(object) {
            Ok(read) => {
                self.n_reports += 1;
                self.rows.extend(rows_of(&read.report, origin));
                let complaints = read
                    .complaints
                    .iter()
                    .map(|complaint| format!("{place}: {complaint}"));
                self.unreadable.extend(complaints);
            }
            Err(error) => self.unreadable.push(format!("{place}: {error}")),
        }
    }
}

/// The reports among manifests. The origin of a row is its object, if that is among the manifests too.
pub fn from_manifests(manifests: &Manifests) -> Gathered {
    let mut gathered = Gathered::default();
    let problems = manifests.problems.iter().map(ToString::to_string);
    gathered.unreadable.extend(problems);
    for document in manifests
        .documents
        .iter()
        .filter(|document| is_report(&document.object))
    {
        let place = document.origin.to_string();
        gathered.add(&document.object, &place, Some(&document.origin));
    }
    let places = manifests.documents.iter().map(|document| {
        let key = (
            document.kind.kind.as_str(),
            document.namespace().unwrap_or_default(),
            document.name(),
        );
        (key, &document.origin)
    });
    let places: std::collections::HashMap<_, _> = places.collect();
    for row in &mut gathered.rows {
        let key = (row.kind.as_str(), row.namespace.as_str(), row.name.as_str());
        if let Some(origin) = places.get(&key) {
            row.origin = Some((*origin).clone());
        }
    }
    gathered
}

/// The reports of a cluster in both API groups, of some namespaces or of all.
pub async fn from_cluster(
    client: &Client,
    namespaces: &[String],
) -> Result<Gathered, ReportReadError> {
    let mut gathered = Gathered::default();
    let mut n_served = 0;
    for group in ReportGroup::ALL {
        let [namespaced, cluster] = [0, 1].map(|index| {
            let kind = GroupVersionKind::gvk(group.group(), group.version(), group.kinds()[index]);
            ApiResource::from_gvk_with_plural(&kind, group.plurals()[index])
        });
        if namespaces.is_empty() {
            for resource in [&namespaced, &cluster] {
                let api = Api::all_with(client.clone(), resource);
                n_served += usize::from(list(api, resource, &mut gathered).await?);
            }
        }
        for namespace in namespaces {
            let api = Api::namespaced_with(client.clone(), namespace, &namespaced);
            n_served += usize::from(list(api, &namespaced, &mut gathered).await?);
        }
    }
    if n_served == 0 {
        return Err(ReportReadError::NotServed);
    }
    Ok(gathered)
}

/// Adds all reports of a kind, page by page; false if the cluster does not serve the kind.
async fn list(
    api: Api<DynamicObject>,
    resource: &ApiResource,
    gathered: &mut Gathered,
) -> Result<bool, ReportReadError> {
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(false),
            Err(error) => {
                return Err(ReportReadError::List {
                    plural: resource.plural.clone(),
                    source: Box::new(error),
                });
            }
        };
        for object in page.items {
            let mut value = serde_json::to_value(&object).map_err(ReportReadError::Encode)?;
            // Items of a list have no kind.
            value["apiVersion"] = resource.api_version.clone().into();
            value["kind"] = resource.kind.clone().into();
            let namespace = object.metadata.namespace.unwrap_or_default();
            let name = object.metadata.name.unwrap_or_default();
            gathered.add(
                &value,
                &format!("{} {namespace}/{name}", resource.kind),
                None,
            );
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(true),
        }
    }
}
