//! A command-line program of a usual shape: sub-commands in a table, options, trait objects, formatted output, a
//! hash map. It counts words; started without a file it prints its help and ends.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, Write};

/// A sub-command.
struct Command {
    name: &'static str,
    summary: &'static str,
    run: fn(&Options, &mut dyn Write) -> Result<(), Failure>,
}

/// What ends a run early.
#[derive(Debug)]
enum Failure {
    Usage(String),
    Io(String, io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(what) => write!(f, "{what}; try 'cli help'"),
            Failure::Io(path, e) => write!(f, "{path}: {e}"),
        }
    }
}

impl std::error::Error for Failure {}

static COMMANDS: &[Command] = &[
    Command { name: "help", summary: "what there is", run: help },
    Command { name: "words", summary: "the most frequent words of files", run: words },
    Command { name: "lines", summary: "lines, words and bytes of files", run: lines },
    Command { name: "longest", summary: "the longest line of files", run: longest },
    Command { name: "histogram", summary: "line lengths, drawn", run: histogram },
];

#[derive(Default)]
struct Options {
    top: usize,
    ignore_case: bool,
    files: Vec<String>,
}

fn parse(args: &[String]) -> Result<(&'static Command, Options), Failure> {
    let name = args.first().map_or("help", String::as_str);
    let command = COMMANDS.iter().find(|c| c.name == name);
    let command = command.ok_or_else(|| Failure::Usage(format!("{name}: no such command")))?;
    let mut options = Options { top: 10, ..Options::default() };
    let mut rest = args.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-i" | "--ignore-case" => options.ignore_case = true,
            "-n" | "--top" => {
                let value = rest.next().and_then(|v| v.parse().ok());
                options.top = value.ok_or_else(|| Failure::Usage(format!("{word}: needs a number")))?;
            }
            flag if flag.starts_with('-') => return Err(Failure::Usage(format!("{flag}: unknown option"))),
            file => options.files.push(file.to_string()),
        }
    }
    Ok((command, options))
}

fn help(_: &Options, out: &mut dyn Write) -> Result<(), Failure> {
    for command in COMMANDS {
        writeln!(out, "  {:<10} {}", command.name, command.summary).map_err(|e| Failure::Io("output".into(), e))?;
    }
    Ok(())
}

fn each_line(options: &Options, mut visit: impl FnMut(&str)) -> Result<(), Failure> {
    for file in &options.files {
        let open = std::fs::File::open(file).map_err(|e| Failure::Io(file.clone(), e))?;
        for line in io::BufReader::new(open).lines() {
            visit(&line.map_err(|e| Failure::Io(file.clone(), e))?);
        }
    }
    Ok(())
}

fn words(options: &Options, out: &mut dyn Write) -> Result<(), Failure> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    each_line(options, |line| {
        for word in line.split_whitespace() {
            let word = if options.ignore_case { word.to_lowercase() } else { word.to_string() };
            *counts.entry(word).or_default() += 1;
        }
    })?;
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    for (word, n) in sorted.iter().take(options.top) {
        writeln!(out, "{n:>8} {word}").map_err(|e| Failure::Io("output".into(), e))?;
    }
    Ok(())
}

fn lines(options: &Options, out: &mut dyn Write) -> Result<(), Failure> {
    let (mut n, mut w, mut bytes) = (0u64, 0u64, 0u64);
    each_line(options, |line| {
        n += 1;
        w += line.split_whitespace().count() as u64;
        bytes += line.len() as u64 + 1;
    })?;
    writeln!(out, "{n:>8} {w:>8} {bytes:>8}").map_err(|e| Failure::Io("output".into(), e))
}

fn longest(options: &Options, out: &mut dyn Write) -> Result<(), Failure> {
    let mut best = String::new();
    each_line(options, |line| {
        if line.chars().count() > best.chars().count() {
            best = line.to_string();
        }
    })?;
    writeln!(out, "{best}").map_err(|e| Failure::Io("output".into(), e))
}

fn histogram(options: &Options, out: &mut dyn Write) -> Result<(), Failure> {
    let mut bins = [0usize; 12];
    each_line(options, |line| bins[(line.len() / 10).min(11)] += 1)?;
    let top = bins.iter().max().copied().unwrap_or(0).max(1);
    for (i, n) in bins.iter().enumerate() {
        let bar = "#".repeat(n * 40 / top);
        writeln!(out, "{:>4} {n:>8} {bar}", i * 10).map_err(|e| Failure::Io("output".into(), e))?;
    }
    Ok(())
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let done = parse(&args).and_then(|(command, options)| (command.run)(&options, &mut out));
    let failed: Option<Box<dyn std::error::Error>> = match done {
        Ok(()) => out.flush().err().map(Into::into),
        Err(e) => Some(Box::new(e)),
    };
    if let Some(e) = failed {
        eprintln!("cli: {e}");
        std::process::exit(2);
    }
}
