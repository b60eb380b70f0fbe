//! Splitting: the entries of one policy in one namespace become chunks, none of them too large.
//! See docs/spec/reports.md#4.
//!
//! An object's entries stay in one chunk, chosen by the object's uid, so that one entry more changes one chunk; cutting
//! a sorted list would move all that follow. The number of chunks is a power of two. It grows when a chunk overflows
//! and shrinks only when there is much room, so that it does not go to and fro.

use std::collections::{BTreeMap, HashMap};

use crate::dress::{ENTRY_MAX_BYTES, weight};
use crate::entry::PublicEntry;
use crate::shard::{fnv1a64, fnv1a64_from};

/// No more chunks than this by uid; what still overflows then spills over.
const MOST_CHUNKS: u32 = 1 << 16;
/// Below this share of what would fit, in percent, there are too many chunks.
const LOW_FILL: usize = 25;
/// The least that a limit of bytes can be: some entries and the object around them.
const LEAST_BYTES: usize = 8 * ENTRY_MAX_BYTES;

/// How large a public report may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    max_results: Option<usize>,
    max_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self::new(1000, 1_000_000)
    }
}

impl Limits {
    /// At most so many entries (0: any number) and bytes of JSON; too small a number of bytes is raised.
    pub fn new(max_results: usize, max_bytes: usize) -> Self {
        Self {
            max_results: (max_results > 0).then_some(max_results),
            max_bytes: max_bytes.max(LEAST_BYTES),
        }
    }

    pub fn max_results(&self) -> Option<usize> {
        self.max_results
    }

    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn holds(&self, load: Load, envelope: usize) -> bool {
        load.bytes + envelope <= self.max_bytes
            && self.max_results.is_none_or(|max| load.entries <= max)
    }

    /// How full `n_chunks` chunks are with all of this, in percent.
    fn fill(&self, all: Load, n_chunks: u32, envelope: usize) -> usize {
        let n_chunks = n_chunks as usize;
        let room = self.max_bytes.saturating_sub(envelope).max(1);
        let by_bytes = all.bytes * 100 / (room * n_chunks);
        let by_entries = self
            .max_results
            .map_or(0, |max| all.entries * 100 / (max * n_chunks));
        by_bytes.max(by_entries)
    }
}

/// The entries of a policy, split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunks {
    /// The number of chunks over which entries are spread. The objects store it, because empty chunks have none.
    pub n_chunks: u32,
    /// By number, each in the order of reports.
    pub chunks: BTreeMap<u32, Vec<PublicEntry>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Load {
    entries: usize,
    bytes: usize,
}

impl Load {
    fn add(&mut self, other: Load) {
        self.entries += other.entries;
        self.bytes += other.bytes;
    }
}

/// Splits entries that are in the order of reports. `envelope` is the weight of an object without its entries,
/// `n_chunks` the number of chunks that are stored.
pub fn split(entries: Vec<PublicEntry>, limits: &Limits, envelope: usize, n_chunks: u32) -> Chunks {
    let weights: Vec<usize> = entries.iter().map(|entry| weight(entry) + 1).collect();
    let mut all = Load::default();
    for bytes in &weights {
        all.add(Load {
            entries: 1,
            bytes: *bytes,
        });
    }
    let was = n_chunks.clamp(1, MOST_CHUNKS).next_power_of_two();
    if was == 1 && limits.holds(all, envelope) {
        let chunks = if entries.is_empty() {
            BTreeMap::new()
        } else {
            BTreeMap::from([(0, entries)])
        };
        return Chunks {
            n_chunks: 1,
            chunks,
        };
    }
    let places = places(&entries, &weights, limits, envelope);
    let fits = |n_chunks: u32| {
        let mut loads = vec![Load::default(); n_chunks as usize];
        places.iter().zip(&weights).all(|(place, bytes)| {
            let load = &mut loads[(place % u64::from(n_chunks)) as usize];
            load.add(Load {
                entries: 1,
                bytes: *bytes,
            });
            limits.holds(*load, envelope)
        })
    };
    let mut n_chunks = was;
    while n_chunks < MOST_CHUNKS && !fits(n_chunks) {
        n_chunks *= 2;
    }
    while n_chunks > 1 && limits.fill(all, n_chunks, envelope) < LOW_FILL && fits(n_chunks / 2) {
        n_chunks /= 2;
    }
    let mut filled = Filled {
        limits,
        envelope,
        n_chunks,
        loads: HashMap::new(),
        chunks: BTreeMap::new(),
    };
    for ((entry, place), bytes) in entries.into_iter().zip(places).zip(weights) {
        filled.put(entry, (place % u64::from(n_chunks)) as u32, bytes);
    }
    Chunks {
        n_chunks,
        chunks: filled.chunks,
    }
}

/// Where each entry belongs, before the number of chunks is known: the hash of its object's uid. An object that alone
/// is too much for a chunk is spread by rule as well.
fn places(
    entries: &[PublicEntry],
    weights: &[usize],
    limits: &Limits,
    envelope: usize,
) -> Vec<u64> {
    let mut by_uid: HashMap<&str, Load> = HashMap::new();
    for (entry, bytes) in entries.iter().zip(weights) {
        by_uid.entry(entry.uid()).or_default().add(Load {
            entries: 1,
            bytes: *bytes,
        });
    }
    entries
        .iter()
        .map(|entry| {
            let place = fnv1a64(entry.uid().as_bytes());
            if limits.holds(by_uid[entry.uid()], envelope) {
                place
            } else {
                fnv1a64_from(fnv1a64_from(place, b"/"), entry.rule.as_bytes())
            }
        })
        .collect()
}

/// Chunks while they are filled.
struct Filled<'a> {
    limits: &'a Limits,
    envelope: usize,
    n_chunks: u32,
    loads: HashMap<u32, Load>,
    chunks: BTreeMap<u32, Vec<PublicEntry>>,
}

impl Filled<'_> {
    /// Puts an entry where it belongs; only with the most chunks of all can that be full, and the next one behind
    /// them takes it.
    fn put(&mut self, entry: PublicEntry, chunk: u32, bytes: usize) {
        let one = Load { entries: 1, bytes };
        let spill = (self.n_chunks..).filter(|_| self.n_chunks == MOST_CHUNKS);
        for chunk in std::iter::once(chunk).chain(spill) {
            let mut load = self.loads.get(&chunk).copied().unwrap_or_default();
            load.add(one);
            // Never lost: where nothing can spill, every chunk was found to fit before.
            if self.limits.holds(load, self.envelope) || self.n_chunks < MOST_CHUNKS {
                self.loads.insert(chunk, load);
                self.chunks.entry(chunk).or_default().push(entry);
                return;
            }
        }
    }
}
