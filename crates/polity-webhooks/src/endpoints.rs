//! Where a Service is ready: its EndpointSlices, with the port resolved through the Service.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

/// The ready addresses behind a Service's port, or why there are none.
pub fn resolve<'a>(
    name: &str,
    service: Option<&Value>,
    slices: impl IntoIterator<Item = &'a Value>,
    port: u16,
) -> Result<Vec<SocketAddr>, String> {
    let service = service.ok_or_else(|| format!("service {name:?} not found"))?;
    let ports = service.pointer("/spec/ports").and_then(Value::as_array);
    let service_port = ports
        .into_iter()
        .flatten()
        .find(|candidate| candidate.get("port").and_then(Value::as_u64) == Some(u64::from(port)))
        .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let port_name = service_port
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let addresses: Vec<SocketAddr> = slices
        .into_iter()
        .flat_map(|slice| ready(slice, port_name))
        .collect();
    if addresses.is_empty() {
        return Err(format!("no endpoints available for service {name:?}"));
    }
    Ok(addresses)
}

fn ready(slice: &Value, port_name: &str) -> Vec<SocketAddr> {
    let list = |name: &str| {
        slice
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let ports: Vec<u16> = list("ports")
        .filter(|port| port.get("name").and_then(Value::as_str).unwrap_or_default() == port_name)
        .filter_map(|port| u16::try_from(port.get("port")?.as_u64()?).ok())
        .collect();
    list("endpoints")
        // An endpoint without a condition is ready.
        .filter(|endpoint| {
            endpoint
                .pointer("/conditions/ready")
                .and_then(Value::as_bool)
                != Some(false)
        })
        .flat_map(|endpoint| {
            endpoint
                .get("addresses")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        })
        .filter_map(|address| address.as_str()?.parse::<IpAddr>().ok())
        .flat_map(|address| {
            ports
                .iter()
                .map(move |port| SocketAddr::new(address, *port))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_are_the_ready_endpoints_of_the_port_by_name() {
        let service = json!({"spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 443, "targetPort": "x"}]}});
        let slices = [
            json!({"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}], "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
                {"addresses": ["10.0.0.3"]},
                {"addresses": ["not an address"]},
            ]}),
            json!({"ports": [{"name": "b", "port": 3}], "endpoints": [{"addresses": ["::1"]}]}),
        ];
        let found = resolve("s", Some(&service), &slices, 443).unwrap();
        let expected: Vec<SocketAddr> = ["10.0.0.1:2", "10.0.0.3:2", "[::1]:3"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        assert_eq!(found, expected);
        let why =
            |service: Option<&Value>, port| resolve("s", service, &slices[..0], port).unwrap_err();
        assert_eq!(why(None, 443), "service \"s\" not found");
        assert_eq!(
            why(Some(&service), 1),
            "no service port 1 found for service \"s\""
        );
        assert_eq!(
            why(Some(&service), 443),
            "no endpoints available for service \"s\""
        );
    }
}
