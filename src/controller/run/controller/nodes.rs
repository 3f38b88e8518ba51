//! Events of nodes, and the verdicts that pods have proved on them.

use kube::Client;
use swaplet_core::objects::node::NodeWire;

use super::Controller;
use super::log::log_node_problem;
use crate::cluster::nodes::Learned;
use crate::cluster::verdict_store::{VerdictStore, all_kept};
use crate::frame::clock::time_of_day;
use crate::frame::isolated::defects::read;
use crate::frame::serve::rights::Right;
use crate::frame::watch::Event;

impl Controller {
    pub(in crate::run) fn observe_node(&mut self, event: Event<NodeWire>) {
        match event {
            Event::ListStart => self.index.nodes.list_starts(),
            Event::Listed(node) => {
                if let Some(node) = read("node", || node.read()) {
                    let change = self.index.nodes.listed(&node);
                    log_node_problem(&node.name, &change);
                }
            }
            Event::ListEnd => {
                self.health.nodes_seen();
                if self.index.nodes.list_ends() {
                    self.index.enqueue_where(|_| true);
                }
            }
            Event::Applied(node) => {
                if let Some(node) = read("node", || node.read()) {
                    let change = self.index.nodes.apply(&node);
                    log_node_problem(&node.name, &change);
                    if change.matters {
                        self.index.enqueue_where(|pod| pod.node == node.name);
                    }
                }
            }
            Event::Deleted(node) => {
                if let Some(node) = read("node", || node.read()) {
                    self.index.nodes.remove(&node.name);
                }
            }
            Event::Current(_) => self.health.has(Right::WatchNodes),
            Event::Relists(_) => {}
            Event::Trouble(error) | Event::Hidden(error) => {
                self.metrics.watch_trouble("nodes");
                self.health.lacks(Right::WatchNodes, &error);
                self.report_trouble(&error, "cannot watch nodes; trying again");
            }
            Event::Forbidden(error) => self.nodes_forbidden(&error),
        }
    }

    pub(in crate::run) async fn restore_verdicts(&mut self, client: Client, namespace: &str) {
        let (health, precedence) = (self.health.clone(), self.precedence.clone());
        let (store, kept) = VerdictStore::start(client, namespace, health, precedence).await;
        self.index
            .nodes
            .restore_kept(kept, self.clock.now(), time_of_day());
        self.verdicts = Some(store);
    }

    pub(in crate::run) fn learned(&self, learned: &Learned) {
        let Learned {
            node,
            proved,
            pod,
            taken_for,
        } = learned;
        self.metrics.learned(*proved, *taken_for);
        tracing::info!(%node, %proved, pod, %taken_for, "a pod has proved how its node treats a changed image");
        if let Some(store) = &self.verdicts {
            store.keep(all_kept(
                self.index.nodes.verdicts(),
                self.clock.now(),
                time_of_day(),
            ));
        }
    }
}
