//! The program that tests run in Pods. It takes the place of `polity server` and behaves as the variables of its Pod say.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use polity_local::process::{Program, Spawner, launch};
use polity_runtime::env;

fn main() -> ExitCode {
    if let Some(code) = launch::intercept(std::env::args_os()) {
        return code;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        // What Pods of policy servers run.
        Some("server") => server(),
        Some("family") => family(),
        Some("runtime") => runtime(&args[1..]),
        _ => ExitCode::from(64),
    }
}

/// Behaves as a variable of the Pod says.
fn server() -> ExitCode {
    match text("KUBEWARDEN_LOG_FMT").as_str() {
        "serve" => serve(),
        "crash" => {
            say("about to crash");
            ExitCode::from(3)
        }
        "stubborn" => stubborn(),
        _ => ExitCode::from(64),
    }
}

fn text(name: &str) -> String {
    let value = env::read(name).unwrap_or_default();
    value.to_string_lossy().into_owned()
}

/// Serves its name and the content of a file on one port, and readiness on the other.
fn serve() -> ExitCode {
    let address = |port: &str| format!("{}:{}", text("KUBEWARDEN_BIND_ADDRESS"), text(port));
    let listen = |port: &str| TcpListener::bind(address(port)).expect("the port is free");
    let (main, ready) = (
        listen("KUBEWARDEN_PORT"),
        listen("KUBEWARDEN_READINESS_PROBE_PORT"),
    );
    say(&format!(
        "{} says {}",
        text("POD_NAME"),
        text("KUBEWARDEN_LOG_LEVEL")
    ));
    std::thread::spawn(move || {
        for stream in ready.incoming().flatten() {
            answer(stream, "ready");
        }
    });
    let file = text("KUBEWARDEN_SOURCES_PATH");
    for stream in main.incoming().flatten() {
        let content = std::fs::read_to_string(&file).unwrap_or_default();
        answer(stream, &format!("{} {content}", text("POD_NAME")));
    }
    ExitCode::SUCCESS
}

fn answer(mut stream: TcpStream, text: &str) {
    let mut request = [0; 2048];
    if matches!(stream.read(&mut request), Ok(1..)) {
        let length = text.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
        )
        .ok();
    }
}

/// Does not end when asked.
fn stubborn() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime starts").block_on(async {
        let terminate = tokio::signal::unix::SignalKind::terminate();
        let mut asked = tokio::signal::unix::signal(terminate).expect("a signal can be handled");
        say("not going");
        loop {
            asked.recv().await;
            say("asked to go");
        }
    })
}

/// Has a child of its own, which would outlive it.
fn family() -> ExitCode {
    let child = Command::new("sleep")
        .arg("1000")
        .stdout(Stdio::null())
        .spawn();
    let mut child = child.expect("sleep is there");
    say(&format!("{} {}", std::process::id(), child.id()));
    child.wait().ok();
    ExitCode::SUCCESS
}

/// Is a runtime that runs a family until it is killed itself.
fn runtime(words: &[String]) -> ExitCode {
    let this = std::env::current_exe().expect("this program has a path");
    let spawner = Spawner::new(this.clone()).expect("the guard starts");
    let program = Program {
        called: "family".into(),
        binary: this,
        args: words.iter().map(Into::into).collect(),
        env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        directory: PathBuf::from("/"),
    };
    let mut process = spawner.spawn(&program).expect("the child starts");
    let mut output = std::io::stdout();
    std::io::copy(&mut process.output, &mut output).ok();
    ExitCode::SUCCESS
}

fn say(text: &str) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}")
        .and_then(|()| stdout.flush())
        .ok();
}
