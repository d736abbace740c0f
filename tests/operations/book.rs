//! docs/operations.md, read as what it tells people to type and what they see then.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// A command of a ```` ```console ```` block and the output that stands below it.
#[derive(Debug)]
pub struct Step {
    pub command: String,
    pub output: Vec<String>,
}

/// All of a section's commands, in order.
pub fn section(title: &str) -> Vec<Step> {
    let page = include_str!("../../docs/operations.md");
    let mut lines = page.lines().skip_while(|line| line.trim_start_matches('#').trim() != title);
    let heading = lines.next().unwrap_or_else(|| panic!("no section `{title}`"));
    let level = heading.chars().take_while(|c| *c == '#').count();
    let is_end = |line: &&str| {
        let deep = line.chars().take_while(|c| *c == '#').count();
        deep > 0 && deep <= level && line[deep..].starts_with(' ')
    };
    let (mut steps, mut inside): (Vec<Step>, bool) = (Vec::new(), false);
    // A comment in a block of commands looks like a heading.
    for line in lines.scan(false, |fenced, line| {
        *fenced ^= line.starts_with("```");
        (*fenced || !is_end(&line)).then_some(line)
    }) {
        match (inside, line) {
            (false, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, line) => match (line.strip_prefix("$ "), line.strip_prefix("> "), steps.last_mut()) {
                (Some(command), ..) => steps.push(Step { command: command.to_owned(), output: Vec::new() }),
                (None, Some(more), Some(step)) if step.output.is_empty() => {
                    step.command.push('\n');
                    step.command += more;
                }
                (.., Some(step)) => step.output.push(line.to_owned()),
                _ => panic!("{title}: output before any command: {line}"),
            },
            _ => {}
        }
    }
    assert!(!steps.is_empty(), "no commands in `{title}`");
    steps
}

/// Types the commands into one shell, in that folder, with the tools in `tools` going before all others; checks what each prints.
pub fn follow(title: &str, folder: &Path, tools: &Path, names: &[(&str, String)]) {
    let steps = section(title);
    let mark = "-- next --";
    let script: Vec<String> = steps.iter().map(|step| format!("{}\necho '{mark}'\n", step.command)).collect();
    let printed = call(&script.concat(), folder, tools, names);
    let outputs: Vec<Vec<&str>> =
        printed.split(mark).map(|output| output.trim_start().lines().collect()).collect();
    let differ = |(step, output): &(&Step, &Vec<&str>)| !matches(&step.output, output);
    if let Some((step, _)) = steps.iter().zip(&outputs).find(differ) {
        let typed =
            |(step, output): (&Step, &Vec<&str>)| format!("$ {}\n{}\n", step.command, output.join("\n"));
        let all: Vec<String> = steps.iter().zip(&outputs).map(typed).collect();
        panic!("{title}: other than on the page: $ {}\n\n{}", step.command, all.concat());
    }
}

/// Types commands into a shell in which these variables are set; both outputs in one.
pub fn call(commands: &str, folder: &Path, tools: &Path, names: &[(&str, String)]) -> String {
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap_or_default());
    let output = File::create(folder.join("output")).expect("a file");
    let mut shell = Command::new("bash")
        .args(["-c", commands])
        .current_dir(folder)
        .env("PATH", path)
        .envs(names.iter().map(|(name, value)| (name, value)))
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("a file"))
        .stderr(output)
        .spawn()
        .expect("a shell");
    // Not until its output is closed: services that it starts may hold that open.
    shell.wait().expect("its end");
    fs::read_to_string(folder.join("output")).expect("text")
}

/// `…` stands for anything within a line, a line `...` for any number of lines.
fn matches(page: &[String], output: &[&str]) -> bool {
    match page.split_first() {
        None => output.is_empty(),
        Some((line, rest)) if line.trim() == "..." => {
            (0..=output.len()).any(|skipped| matches(rest, &output[skipped..]))
        }
        Some((line, rest)) => {
            output.split_first().is_some_and(|(first, left)| line_matches(line, first) && matches(rest, left))
        }
    }
}

fn line_matches(page: &str, output: &str) -> bool {
    let mut parts = page.trim_end().split('…');
    let Some(mut left) = output.trim_end().strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(before) = last.replace(part) {
            match left.find(before) {
                Some(at) => left = &left[at + str::len(before)..],
                None => return false,
            }
        }
    }
    last.map_or(left.is_empty(), |last| left.ends_with(last))
}

#[test]
fn gaps_in_a_line_and_between_lines() {
    let page = |lines: &[&str]| lines.iter().map(|line| line.to_string()).collect::<Vec<_>>();
    assert!(matches(&page(&["a…c", "...", "z"]), &["abbc", "x", "y", "z"]));
    assert!(matches(&page(&["a…b…c"]), &["a1b2c"]) && !matches(&page(&["a…b…c"]), &["a1c2b"]));
    assert!(!matches(&page(&["a", "z"]), &["a", "y", "z"]) && !matches(&page(&["a"]), &["ab"]));
    assert!(matches(&page(&[]), &[]) && !matches(&page(&[]), &["x"]));
}
