//! How far two words are from each other.

/// Insertions, deletions and replacements of one character from one word to the other.
pub fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_far_as_their_edits() {
        for (from, to, expected) in [
            ("", "", 0),
            ("doctor", "doctor", 0),
            ("doctro", "doctor", 2),
            ("statu", "status", 1),
            ("restart", "reset", 3),
        ] {
            assert_eq!(edits(from, to), expected, "{from} {to}");
        }
    }
}
