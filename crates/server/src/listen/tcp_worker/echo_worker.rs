//! A thread for tests, which is not running, that responds with the query.

use super::*;
use answer::{Request, Response};

/// Responds with the query.
#[derive(Default)]
pub(super) struct Echo(answer::Counters);

impl Responder for Echo {
    fn refresh(&mut self) {}

    fn counters(&self) -> &answer::Counters {
        &self.0
    }

    fn answer(&mut self, request: Request<'_>, out: &mut [u8]) -> Response {
        out[..request.message.len()].copy_from_slice(request.message);
        Response::Send(request.message.len())
    }
}

pub(super) fn waker() -> Arc<Waker> {
    Arc::new(Waker::new().expect("eventfd"))
}

pub(super) fn worker(
    listeners: Vec<Listener>,
    route: Route,
    waker: Arc<Waker>,
    shared: &SharedCounts,
    config: &ListenConfig,
) -> TcpWorker<Echo> {
    let setup = WorkerSetup { responder: Echo::default(), counters: Arc::default(), waker };
    TcpWorker::new(setup, listeners, route, shared.clone(), config).expect("epoll")
}
