//! The committed figures, and whether a later run falls behind them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::report::{Better, Figure};
use crate::stats::number;

/// What `bench/baseline.json` holds: the figures of BASELINE.md.
#[derive(Debug, Serialize, Deserialize)]
pub struct Baseline {
    /// The commit they were measured with.
    pub commit: String,
    /// The figures.
    pub figures: Vec<Figure>,
}

// === impl Baseline ===

impl Baseline {
    /// Reads the file.
    pub fn load(path: &Path) -> Result<Baseline> {
        let text = fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no baseline", path.display()))
    }

    /// Writes the file.
    pub fn save(&self, path: &Path) -> Result<()> {
        let broken = self.figures.iter().find(|figure| !figure.value.median.is_finite());
        ensure!(broken.is_none(), "a figure is no number: {broken:?}");
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
    }

    /// The ratios that fell behind further than the repetitions of either run lay apart, one sentence each, by key. Figures in
    /// units of their own are for people: they say something about the machine too.
    pub fn behind(&self, now: &[Figure]) -> BTreeMap<String, String> {
        let mut behind = BTreeMap::new();
        for committed in self.figures.iter().filter(|figure| figure.unit.is_empty()) {
            // The short version leaves some out.
            let Some(now) = now.iter().find(|figure| figure.key == committed.key) else { continue };
            let noise = committed.value.noise().max(now.value.noise());
            let lost = match committed.better {
                Better::Higher => committed.value.median - now.value.median,
                Better::Lower => now.value.median - committed.value.median,
            };
            // A ratio that is no number has not been reached either.
            if lost.is_nan() || lost > noise {
                let words = format!(
                    "{} ({}): {} now, {} in the baseline of commit {}, noise {}",
                    now.what,
                    now.key,
                    number(now.value.median),
                    number(committed.value.median),
                    self.commit,
                    number(noise),
                );
                behind.insert(now.key.clone(), words);
            }
        }
        behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    fn figure(key: &str, values: [f64; 3], better: Better) -> Figure {
        Figure::ratio(key, key, Spread::of(values), better)
    }

    fn baseline() -> Baseline {
        let figures = vec![
            figure("rate", [0.80, 0.85, 0.90], Better::Higher),
            figure("cpu", [0.50, 0.51, 0.52], Better::Lower),
            figure("memory", [40.0, 41.0, 42.0], Better::Lower).unit("MB"),
        ];
        Baseline { commit: "abc".to_owned(), figures }
    }

    #[test]
    fn the_committed_figures_pass() {
        let committed = baseline();
        assert_eq!(committed.behind(&committed.figures), BTreeMap::new());
    }

    #[test]
    fn one_that_fell_behind_its_noise_fails_by_name() {
        let committed = baseline();
        let now = |rate, cpu| {
            let figures = [figure("rate", [rate; 3], Better::Higher), figure("cpu", [cpu; 3], Better::Lower)];
            committed.behind(&figures)
        };
        // Noise of the rate: 0.05; of the CPU time: a twentieth of it.
        assert_eq!(now(0.81, 0.53), BTreeMap::new());
        assert_eq!(now(2.0, 0.1), BTreeMap::new());
        let slow = now(0.79, 0.53);
        assert!(slow.len() == 1 && slow.contains_key("rate"), "{slow:?}");
        let costly = now(0.81, 0.54);
        assert!(costly.len() == 1 && costly.contains_key("cpu"), "{costly:?}");
        assert_eq!(now(f64::NAN, 0.5).len(), 1);
    }

    #[test]
    fn noise_of_the_later_run_counts_too_and_units_do_not() {
        let committed = baseline();
        let noisy = [figure("rate", [0.60, 0.75, 0.90], Better::Higher)];
        assert_eq!(committed.behind(&noisy), BTreeMap::new());
        let large = [figure("memory", [400.0; 3], Better::Lower).unit("MB")];
        assert_eq!(committed.behind(&large), BTreeMap::new());
    }

    #[test]
    fn the_committed_file_passes_and_each_of_its_ratios_can_fail() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.json");
        let committed = Baseline::load(&path).expect("the committed baseline");
        assert_eq!(committed.behind(&committed.figures), BTreeMap::new());
        let ratios: Vec<&Figure> = committed.figures.iter().filter(|figure| figure.unit.is_empty()).collect();
        assert!(!ratios.is_empty());
        for figure in ratios {
            let fall = 1.01 * figure.value.noise() * if figure.better == Better::Higher { -1.0 } else { 1.0 };
            let value = Spread::of([figure.value.median + fall]);
            let worse = Figure { value, ..figure.clone() };
            // A lower figure can have more noise of its own than it fell.
            if worse.value.noise() > figure.value.noise() {
                continue;
            }
            let behind = committed.behind(&[worse]);
            assert!(behind.len() == 1 && behind.contains_key(&figure.key), "{}: {behind:?}", figure.key);
        }
    }

    #[test]
    fn a_file_gives_back_what_was_saved() {
        let path = tempfile::tempdir().expect("a directory").keep().join("baseline.json");
        baseline().save(&path).expect("saved");
        let read = Baseline::load(&path).expect("read");
        assert_eq!(read.figures, baseline().figures);
        std::fs::remove_dir_all(path.parent().expect("its directory")).expect("removed");
    }
}
