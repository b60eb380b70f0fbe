//! Objects that are unusual in one way each, in a size that can be chosen.

use std::fmt::Write;

type Make = fn(usize) -> Vec<u8>;

/// Each with about `n` parts.
pub(crate) const SHAPES: [(&str, Make); 8] = [
    ("many members", many_members),
    ("many duplicate keys", many_duplicates),
    ("many members below a long name", long_parent),
    (
        "many duplicate keys below a long name",
        long_parent_of_duplicates,
    ),
    ("many elements below a long name", long_parent_of_list),
    ("many objects in a list", many_objects),
    ("equal elements", equal_elements),
    ("deep objects", deep),
];

/// An object with this `spec.map`. The schema of the operations has maps, sets and lists.
fn object(spec: &str) -> Vec<u8> {
    let text = format!(
        "{{\"apiVersion\":\"it.polity.dev/v1\",\"kind\":\"Gear\",\"metadata\":{{\"name\":\"g\"}},\
         \"spec\":{spec}}}"
    );
    text.into_bytes()
}

fn list(n: usize, item: impl Fn(usize) -> String) -> String {
    (0..n).fold(String::new(), |mut all, number| {
        let comma = if number > 0 { "," } else { "" };
        let _ = write!(all, "{comma}{}", item(number));
        all
    })
}

fn many_members(n: usize) -> Vec<u8> {
    object(&format!(
        "{{{}}}",
        list(n, |number| format!("\"k{number}\":1"))
    ))
}

fn many_duplicates(n: usize) -> Vec<u8> {
    let twice = list(n, |number| format!("\"k{number}\":1,\"k{number}\":2"));
    object(&format!("{{{twice}}}"))
}

fn long_parent(n: usize) -> Vec<u8> {
    let members = list(n, |number| format!("\"k{number}\":1"));
    let name = "x".repeat(10 * n);
    object(&format!("{{\"maps\":{{\"{name}\":{{{members}}}}}}}"))
}

fn long_parent_of_duplicates(n: usize) -> Vec<u8> {
    let members = list(n, |number| format!("\"k{number}\":1,\"k{number}\":1"));
    let name = "x".repeat(10 * n);
    object(&format!("{{\"maps\":{{\"{name}\":{{{members}}}}}}}"))
}

fn long_parent_of_list(n: usize) -> Vec<u8> {
    let name = "x".repeat(10 * n);
    let items = list(n, |number| format!("{{\"name\":\"i{number}\",\"y\":1}}"));
    object(&format!("{{\"lists\":{{\"{name}\":[{items}]}}}}"))
}

fn many_objects(n: usize) -> Vec<u8> {
    let items = list(n, |number| {
        format!("{{\"name\":\"i{number}\",\"value\":{number}}}")
    });
    object(&format!("{{\"list\":[{items}]}}"))
}

fn equal_elements(n: usize) -> Vec<u8> {
    let items = list(n, |_| "{\"name\":\"same\"}".to_owned());
    let texts = list(n, |_| "\"same\"".to_owned());
    object(&format!("{{\"list\":[{items}],\"set\":[{texts}]}}"))
}

fn deep(n: usize) -> Vec<u8> {
    // As deep as JSON may be; the names take the rest.
    let levels = 100;
    let name = "x".repeat(10 * n / levels);
    let open = format!("{{\"{name}\":").repeat(levels);
    object(&format!("{open}1{}", "}".repeat(levels)))
}
