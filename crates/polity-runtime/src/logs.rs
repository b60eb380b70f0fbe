//! Logs: `tracing` lines on stderr, as text for people or JSON for machines, and spans for a collector of traces.

#[cfg(test)]
mod captured;
mod file;
mod json;
mod lines;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Identity, Layered, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

pub use self::file::rotate;

use self::file::LogFile;
use self::lines::Lines;
use crate::env;
use crate::telemetry::{self, TelemetryError};

/// How much is logged, and how it looks.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// How much to log: trace, debug, info, warn, error, or directives such as
    /// `info,polity_apiserver=debug`
    #[arg(long, env = env::LOG_LEVEL, value_name = "LEVEL", default_value = "info", global = true)]
    pub log_level: LogFilter,

    /// How log lines look
    #[arg(
        long,
        visible_alias = "log-format",
        env = env::LOG_FMT,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        global = true
    )]
    pub log_fmt: LogFormat,

    /// No colours in log lines
    #[arg(
        long,
        env = env::NO_COLOR,
        value_parser = clap::builder::FalseyValueParser::new(),
        global = true
    )]
    pub log_no_color: bool,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
    /// Text, and traces are pushed by OTLP.
    Otlp,
}

/// Dependencies with many log lines, which would hide our own.
const LOUD_DEPENDENCIES: [&str; 9] = [
    "cranelift_codegen",
    "h2",
    "hyper",
    "hyper_util",
    "opentelemetry_sdk",
    "regalloc2",
    "rustls",
    "tower",
    "wasmtime",
];

/// Libraries whose warnings repeat, without context, the error that a command prints itself.
const CLIENT_LIBRARIES: [&str; 8] = [
    "h2",
    "hyper",
    "hyper_util",
    "kube_client",
    "kube_runtime",
    "rustls",
    "tower",
    "tower_http",
];

/// A level or a list of filter directives that was found to be well-formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(String);

/// A filter that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("not a log level or filter: {reason}")]
pub struct BadLogFilter {
    reason: String,
}

impl FromStr for LogFilter {
    type Err = BadLogFilter;

    fn from_str(text: &str) -> Result<Self, BadLogFilter> {
        // An unknown level alone parses as the name of a target, which is never intended.
        let is_bare = !text.contains(['=', ',']);
        if text.is_empty() || is_bare && text.parse::<LevelFilter>().is_err() {
            return Err(BadLogFilter {
                reason: format!("unknown level {text:?}"),
            });
        }
        match EnvFilter::builder().parse(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => Err(BadLogFilter {
                reason: error.to_string(),
            }),
        }
    }
}

impl LogFilter {
    /// A bare level is meant for us: libraries only warn.
    fn directives(&self) -> String {
        let mut directives = self.0.clone();
        if let Ok(LevelFilter::INFO | LevelFilter::DEBUG | LevelFilter::TRACE) = self.0.parse() {
            for target in LOUD_DEPENDENCIES {
                directives.push_str(&format!(",{target}=warn"));
            }
        }
        directives
    }

    /// The filter of a command. It prints its errors itself, so at the default levels client libraries log nothing.
    fn of_command(&self) -> Self {
        let mut directives = self.directives();
        if let Ok(LevelFilter::INFO | LevelFilter::WARN | LevelFilter::ERROR) = self.0.parse() {
            for target in CLIENT_LIBRARIES {
                directives.push_str(&format!(",{target}=off"));
            }
        }
        Self(directives)
    }
}

/// Writes lines to a log file.
type FileLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Why logging cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Another part of the process has set up logging.
    #[error("logging is already set up")]
    AlreadyInitialised(#[source] tracing_subscriber::util::TryInitError),
    #[error("--log-fmt otlp")]
    Traces(#[from] TelemetryError),
    /// The log file cannot be opened.
    #[error("opening the log {}", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// Logging that was set up. [Finished](Self::finish), it leaves nothing undelivered.
#[derive(Debug)]
#[must_use = "spans that were not pushed yet are lost without a finish"]
pub struct Logging {
    traces: Option<SdkTracerProvider>,
    /// Writes the lines that still wait when it is dropped.
    _lines: Option<LastLines>,
}

#[derive(Debug)]
struct LastLines(Lines);

impl Drop for LastLines {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl Logging {
    /// Pushes the spans that were not pushed yet. Blocks while the collector takes them, and needs the runtime that
    /// it was set up in.
    pub fn finish(self) {
        if let Some(Err(error)) = self.traces.map(|provider| provider.shutdown()) {
            tracing::warn!(%error, "the last traces were not delivered");
        }
    }
}

impl LogArgs {
    /// Sets up logging as [`init`](Self::init) does, for a command that prints its own errors.
    pub fn init_command(&self) -> Result<Logging, LogError> {
        let args = Self {
            log_level: self.log_level.of_command(),
            ..self.clone()
        };
        args.init("polity")
    }

    /// Sets up logging to stderr for the whole process, once. Colours only on a terminal, and
    /// never with `NO_COLOR`. Pushing traces, under the name of `service`, needs a runtime around it.
    pub fn init(&self, service: &'static str) -> Result<Logging, LogError> {
        let colours = std::io::stderr().is_terminal() && !env::no_color() && !self.log_no_color;
        let provider = match self.log_fmt {
            LogFormat::Otlp => Some(telemetry::traces(service)?),
            LogFormat::Text | LogFormat::Json => None,
        };
        // Too many open files can prevent the writer. Lines are then written directly.
        let lines = Lines::to(std::io::stderr()).ok();
        let subscriber = match &lines {
            Some(lines) => self.subscriber(provider.as_ref(), colours, lines.clone()),
            None => self.subscriber(provider.as_ref(), colours, std::io::stderr),
        };
        subscriber
            .try_init()
            .map_err(LogError::AlreadyInitialised)?;
        Ok(Logging {
            traces: provider,
            _lines: lines.map(LastLines),
        })
    }

    /// Sets up logging for a process in the foreground of a terminal, once: warnings go to stderr, and all lines go to
    /// a file of limited size.
    pub fn init_with_file(&self, path: &Path) -> Result<Logging, LogError> {
        let colours = std::io::stderr().is_terminal() && !env::no_color() && !self.log_no_color;
        let on_terminal = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(colours)
            .with_filter(LevelFilter::WARN);
        initialised(self.file_subscriber(path, Some(on_terminal))?)
    }

    /// Sets up logging for a process in the background, once: all lines go to a file of limited size, and nothing goes
    /// to stderr.
    pub fn init_in_file(&self, path: &Path) -> Result<Logging, LogError> {
        initialised(self.file_subscriber(path, None::<Identity>)?)
    }

    fn file_subscriber<L>(
        &self,
        path: &Path,
        on_terminal: Option<L>,
    ) -> Result<impl tracing::Subscriber + Send + Sync + use<L>, LogError>
    where
        L: Layer<Layered<FileLayer, Registry>> + Send + Sync,
    {
        let file = LogFile::open(path).map_err(|source| {
            let path = path.to_owned();
            LogError::File { path, source }
        })?;
        let directives = self.log_level.directives();
        let in_file: FileLayer = tracing_subscriber::fmt::layer()
            .with_writer(file)
            .with_ansi(false)
            .with_filter(EnvFilter::builder().parse_lossy(directives))
            .boxed();
        Ok(tracing_subscriber::registry()
            .with(in_file)
            .with(on_terminal))
    }

    fn subscriber<W>(
        &self,
        traces: Option<&SdkTracerProvider>,
        colours: bool,
        writer: W,
    ) -> Box<dyn tracing::Subscriber + Send + Sync>
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let directives = self.log_level.directives();
        // Directives without spans do not need a filter that tracks spans.
        match directives.parse::<Targets>() {
            Ok(targets) if !directives.contains('[') => {
                self.filtered(targets, traces, colours, writer)
            }
            _ => {
                let filter = EnvFilter::builder().parse_lossy(directives);
                self.filtered(filter, traces, colours, writer)
            }
        }
    }

    fn filtered<F, W>(
        &self,
        filter: F,
        traces: Option<&SdkTracerProvider>,
        colours: bool,
        writer: W,
    ) -> Box<dyn tracing::Subscriber + Send + Sync>
    where
        F: Layer<Registry> + Send + Sync,
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let registry = tracing_subscriber::registry().with(filter);
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(writer)
            .with_ansi(colours);
        match self.log_fmt {
            LogFormat::Text | LogFormat::Otlp => {
                let spans = traces.map(|provider| {
                    let tracer = provider.tracer(env!("CARGO_PKG_NAME"));
                    tracing_opentelemetry::layer().with_tracer(tracer)
                });
                Box::new(registry.with(lines).with(spans))
            }
            LogFormat::Json => {
                let lines = lines.fmt_fields(json::JsonFields);
                Box::new(registry.with(lines.event_format(json::JsonLines)))
            }
        }
    }
}

/// Installs a subscriber without traces for the whole process.
fn initialised(
    subscriber: impl tracing::Subscriber + Send + Sync + 'static,
) -> Result<Logging, LogError> {
    subscriber
        .try_init()
        .map_err(LogError::AlreadyInitialised)?;
    Ok(Logging {
        traces: None,
        _lines: None,
    })
}

#[cfg(test)]
mod tests {
    use super::captured::Captured;
    use super::*;

    /// The output of the log calls in `say`.
    fn written_of(level: &str, log_fmt: LogFormat, colours: bool, say: impl FnOnce()) -> String {
        let captured = Captured::default();
        let writer = captured.clone();
        let args = LogArgs {
            log_level: level.parse().unwrap(),
            log_fmt,
            log_no_color: false,
        };
        let subscriber = args.subscriber(None, colours, move || writer.clone());
        tracing::subscriber::with_default(subscriber, say);
        captured.text()
    }

    /// The output of one debug and one info line.
    fn written(level: &str, log_fmt: LogFormat, colours: bool) -> String {
        written_of(level, log_fmt, colours, || {
            tracing::debug!("skipped");
            tracing::debug!(target: "h2::codec", "a frame");
            tracing::info!(policy = "p", "wave promoted");
        })
    }

    #[test]
    fn lines_look_as_asked() {
        let text = written("info", LogFormat::Text, false);
        assert!(
            text.contains("INFO")
                && text.contains("wave promoted")
                && text.contains("policy=\"p\""),
            "{text}"
        );
        assert!(
            !text.contains("skipped") && !text.contains('\u{1b}'),
            "{text}"
        );

        let coloured = written("info", LogFormat::Text, true);
        assert!(coloured.contains('\u{1b}'), "{coloured}");

        let debug = written("warn,polity_runtime=debug", LogFormat::Text, false);
        assert!(debug.contains("skipped"), "{debug}");

        let json: serde_json::Value =
            serde_json::from_str(&written("info", LogFormat::Json, false)).unwrap();
        assert_eq!(json["fields"]["message"], "wave promoted");
        assert_eq!(json["fields"]["policy"], "p");
        assert_eq!(json["level"], "INFO");
        assert!(json["timestamp"].is_string() && json["target"].is_string());
    }

    #[test]
    fn a_process_in_the_background_logs_to_its_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("polity.log");
        let args = LogArgs {
            log_level: "info".parse().unwrap(),
            log_fmt: LogFormat::Text,
            log_no_color: false,
        };
        let captured = Captured::default();
        let writer = captured.clone();
        let on_terminal = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_filter(LevelFilter::WARN);
        let say = || {
            tracing::debug!("skipped");
            tracing::info!("started");
            tracing::warn!("degraded");
        };
        let foreground = args.file_subscriber(&path, Some(on_terminal)).unwrap();
        tracing::subscriber::with_default(foreground, say);
        let printed = captured.text();
        assert!(printed.contains("degraded"), "{printed}");
        assert!(!printed.contains("started"), "{printed}");

        let background = args.file_subscriber(&path, None::<Identity>).unwrap();
        tracing::subscriber::with_default(background, say);
        assert_eq!(captured.text(), printed);
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written.matches("started").count(), 2, "{written}");
        assert_eq!(written.matches("degraded").count(), 2, "{written}");
        assert!(!written.contains("skipped"), "{written}");
    }

    #[test]
    fn libraries_are_quiet_unless_they_are_named() {
        for (level, hears_frames) in [
            ("debug", false),
            ("trace", false),
            ("debug,h2=debug", true),
            ("h2=debug", true),
        ] {
            let text = written(level, LogFormat::Text, false);
            assert_eq!(text.contains("a frame"), hears_frames, "{level}: {text}");
        }
    }

    #[test]
    fn client_libraries_are_silent_in_commands_unless_details_are_asked_for() {
        for (level, is_logged) in [
            ("info", false),
            ("error", false),
            ("debug", true),
            ("info,kube_client=warn", true),
        ] {
            let filter: LogFilter = level.parse().unwrap();
            let text = written_of(&filter.of_command().0, LogFormat::Text, false, || {
                tracing::error!(target: "kube_client::client::builder", "failed with error");
            });
            assert_eq!(text.contains("failed with"), is_logged, "{level}: {text}");
        }
    }

    #[test]
    fn lines_within_a_span_can_be_selected() {
        for level in ["warn,[wave]=debug", "off,[wave]=debug"] {
            let text = written_of(level, LogFormat::Json, false, || {
                tracing::debug!("outside");
                tracing::info_span!("wave").in_scope(|| tracing::debug!("within"));
            });
            assert!(
                text.contains("within") && !text.contains("outside"),
                "{level}: {text}"
            );
        }
    }

    #[test]
    fn filters_are_checked_when_parsed() {
        for good in [
            "info",
            "TRACE",
            "off",
            "warn,polity_store=debug",
            "polity_store=trace",
        ] {
            assert!(good.parse::<LogFilter>().is_ok(), "{good}");
        }
        for bad in ["loud", "a=b=c", "polity_store=loud", ""] {
            assert!(bad.parse::<LogFilter>().is_err(), "{bad}");
        }
    }
}
