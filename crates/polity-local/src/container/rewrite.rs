//! Mount paths: a process here has no root of its own, so the paths its Pod names become the real ones.

/// The mounts of a container: where it thinks they are, and where they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mounts {
    /// The longest first: `/a/b` is not below `/a` when both are mounted.
    pairs: Vec<(String, String)>,
}

impl Mounts {
    /// Mounts by mount path and real directory.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let trim = |path: String| match path.trim_end_matches('/') {
            "" => None,
            path => Some(path.to_owned()),
        };
        let mut pairs: Vec<(String, String)> = pairs
            .into_iter()
            .filter_map(|(mounted, real)| Some((trim(mounted)?, real)))
            .collect();
        pairs.sort_by_key(|(mounted, _)| std::cmp::Reverse(mounted.len()));
        Self { pairs }
    }

    /// Replaces every mount path that stands in a text as a path of its own or as the beginning of one, be it
    /// alone, in a list, after `=` or in a `file://` URL.
    pub fn rewrite(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(next) = text[at..].chars().next() {
            match self.at(text, at) {
                Some((mounted, real)) => {
                    out.push_str(real);
                    at += mounted.len();
                }
                None => {
                    out.push(next);
                    at += next.len_utf8();
                }
            }
        }
        out
    }

    /// Whether every path in a settled text stays below the real directories of the mounts: no absolute path leads
    /// elsewhere, and none climbs. Addresses of web servers are no paths, and a relative path is one below the process's
    /// own directory.
    pub fn confines(&self, text: &str) -> bool {
        // Also in addresses: a program that takes one for a path would climb by it.
        let mut parts = text.split(|letter| letter == '/' || !belongs_to_path(letter));
        if parts.any(|part| part == "..") {
            return false;
        }
        let mut others = String::new();
        let mut at = 0;
        while let Some(next) = text[at..].chars().next() {
            let (before, rest) = text.split_at(at);
            let begins = !before.ends_with(belongs_to_path);
            if begins && (rest.starts_with("http://") || rest.starts_with("https://")) {
                at += rest.find(ends_address).unwrap_or(rest.len());
            } else if begins && next == '/' {
                let Some(real) = self.real_prefix(rest) else {
                    return false;
                };
                at += real.len();
            } else {
                others.push(next);
                at += next.len_utf8();
            }
        }
        !others.to_ascii_lowercase().contains("file:")
    }

    /// The real directory that a path is, or is below of.
    fn real_prefix(&self, path: &str) -> Option<&str> {
        let mut real = self.pairs.iter().map(|(_, real)| real.as_str());
        real.find(|real| {
            path.strip_prefix(real)
                .is_some_and(|after| after.starts_with('/') || !after.starts_with(belongs_to_path))
        })
    }

    fn at(&self, text: &str, at: usize) -> Option<&(String, String)> {
        let (before, rest) = text.split_at(at);
        let begins = rest.starts_with('/')
            && (before.ends_with("file://") || !before.ends_with(belongs_to_path));
        if !begins {
            return None;
        }
        self.pairs.iter().find(|(mounted, _)| {
            rest.strip_prefix(mounted.as_str())
                .is_some_and(|after| after.starts_with('/') || !after.starts_with(belongs_to_path))
        })
    }
}

fn ends_address(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, ',' | ';')
}

fn belongs_to_path(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '/' | '.' | '-' | '_' | '~' | '@' | '+' | '%')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mounts() -> Mounts {
        let pairs = [
            ("/tmp", "/d/tmp"),
            ("/ca", "/d/ca"),
            ("/client-ca/", "/d/client"),
            ("/tmp/in", "/d/in"),
            ("/", "/d/root"),
        ];
        Mounts::new(pairs.map(|(mounted, real)| (mounted.to_owned(), real.to_owned())))
    }

    #[test]
    fn paths_are_rewritten_and_nothing_else() {
        let cases = [
            ("/tmp", "/d/tmp"),
            ("/tmp/", "/d/tmp/"),
            ("/tmp/sigstore-data", "/d/tmp/sigstore-data"),
            ("/tmp/in/x", "/d/in/x"),
            ("/tmp/inner", "/d/tmp/inner"),
            (
                "/ca/ca.crt,/client-ca/client-ca.crt",
                "/d/ca/ca.crt,/d/client/client-ca.crt",
            ),
            ("--dir=/tmp", "--dir=/d/tmp"),
            ("file:///tmp/x.wasm", "file:///d/tmp/x.wasm"),
            ("a:/tmp:/ca", "a:/d/tmp:/d/ca"),
            ("/tmpfile", "/tmpfile"),
            ("/var/tmp", "/var/tmp"),
            ("https://host/tmp/x", "https://host/tmp/x"),
            ("https://tmp/ca", "https://tmp/ca"),
            ("ü/tmp", "ü/tmp"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(mounts().rewrite(text), expected, "{text}");
        }
    }

    #[test]
    fn settled_texts_stay_below_the_mounts() {
        let cases = [
            ("", true),
            ("plain text, 10.0.0.0/8", true),
            ("/d/tmp", true),
            ("/d/tmp/x/..data/y", true),
            ("/d/ca/ca.crt,/d/client/client-ca.crt", true),
            ("--dir=/d/tmp", true),
            ("http://host:4317/v1/traces", true),
            ("https://a/b,http://c/d", true),
            ("relative/path", true),
            ("/", false),
            ("/etc/passwd", false),
            ("//etc/passwd", false),
            ("/d/tmpfile", false),
            ("/d", false),
            ("/d/ca/ca.crt,/etc/passwd", false),
            ("--dir=/etc", false),
            ("http://host/,/etc/passwd", false),
            ("http://host/ /etc/passwd", false),
            ("/d/tmp/../../kubeconfig", false),
            ("/d/tmp/..", false),
            ("/d/tmp/..,x", false),
            ("../kubeconfig", false),
            ("..", false),
            ("http://../../etc", false),
            ("https://host/a/../b", false),
            ("file:///d/tmp", false),
            ("FILE:etc", false),
            ("unix:///run/x", false),
            ("$(X)/etc/passwd", false),
        ];
        for (text, expected) in cases {
            assert_eq!(mounts().confines(text), expected, "{text}");
        }
        assert!(Mounts::default().confines("web") && !Mounts::default().confines("/tmp"));
    }

    proptest! {
        #[test]
        fn what_is_confined_is_below_a_mount(text in "[/.a-z,: ]{0,12}") {
            if mounts().confines(&text) {
                let path = std::path::Path::new(&text);
                let below = ["/d/tmp", "/d/ca", "/d/client", "/d/in"];
                prop_assert!(!path.is_absolute() || below.iter().any(|real| path.starts_with(real)));
                prop_assert!(path.components().all(|part| part != std::path::Component::ParentDir));
            }
        }

        #[test]
        fn without_mounts_nothing_changes(text in ".*") {
            prop_assert_eq!(Mounts::default().rewrite(&text), text);
        }

        #[test]
        fn anything_is_taken(text in "[/a-z,:=ü.]*") {
            mounts().rewrite(&text);
        }
    }
}
