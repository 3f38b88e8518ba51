//! One step of all nodes: decides the writes, node by node.

use super::Warming;
use crate::objects::isolated::isolated;
use crate::objects::moment::Moment;
use crate::warm::warming::node::{NodeProgress, Slots};
use crate::warm::warming::{Action, Elsewhere, Waits};

impl Warming {
    /// Returns the writes to make now: at most one per node, and none where a write is in flight.
    /// `elsewhere` reports what others do on a node.
    pub fn step(
        &mut self,
        now: Moment,
        elsewhere: impl Fn(&str) -> Elsewhere,
    ) -> Vec<(Box<str>, Action)> {
        let parallelism = self.limits.parallelism;
        let mut active = self.active().count();
        let mut excess = active.saturating_sub(parallelism);
        self.nodes.wake(now);
        let wanted = active >= parallelism && self.is_one_free(&elsewhere, now);
        let parallelism = parallelism.min(active.saturating_add(self.room));
        let mut actions = Vec::new();
        let mut waits = Waits::default();
        let mut before = None;
        while let Some(name) = self.nodes.next(before.as_deref(), active < parallelism) {
            let offer = Slots {
                free: active < parallelism,
                wanted,
                excess: excess > 0,
                ..Slots::default()
            };
            let action = self.step_node(&name, offer, &elsewhere, &mut waits, now);
            active += usize::from(matches!(action, Some(Action::Create { .. })));
            excess -= usize::from(offer.excess && matches!(action, Some(Action::Delete { .. })));
            actions.extend(action.map(|action| (name.clone(), action)));
            before = Some(name);
        }
        if active < self.limits.parallelism {
            waits.elsewhere = self.nodes.taken();
        }
        if waits != self.waits {
            (self.waits, self.changed) = (waits, true);
        }
        self.ask_again(
            parallelism.saturating_sub(active),
            now,
            elsewhere,
            &mut actions,
        );
        actions
    }

    fn step_node(
        &mut self,
        name: &str,
        offer: Slots,
        elsewhere: impl Fn(&str) -> Elsewhere,
        waits: &mut Waits,
        now: Moment,
    ) -> Option<Action> {
        let mut is_taken = false;
        let action = self.nodes.change(name, |node| {
            if node.is_broken {
                return None;
            }
            waits.note(name, node, now);
            if node.rests(offer.free && node.wants_slot(now)) {
                node.kept.begin();
                return None;
            }
            let action = isolate(&mut self.defects, name, node, |node| {
                let elsewhere = elsewhere(name);
                is_taken = elsewhere.taken;
                node.step(&self.limits, offer.beside(elsewhere), now)
            });
            waits.note_kept(name, node, now);
            self.changed |= action.is_some() || !node.news.is_empty();
            action
        });
        if is_taken {
            self.nodes.is_taken(name);
        }
        action.flatten()
    }

    /// Returns true if a node could begin, given a slot. Nodes that others have taken do not count.
    fn is_one_free(&mut self, elsewhere: impl Fn(&str) -> Elsewhere, now: Moment) -> bool {
        let mut before = None;
        while let Some(name) = self.nodes.next_waiting(before.as_deref()) {
            let others = elsewhere(&name);
            if others.taken {
                self.nodes.is_taken(&name);
            } else if self
                .nodes
                .get(&name)
                .is_some_and(|node| node.wants_slot(now) && node.is_free(others))
            {
                return true;
            }
            before = Some(name);
        }
        false
    }

    /// Checks settled nodes again with the slots that are left, because nodes that wait for an
    /// image come first. The state of a node is kept until its turn.
    fn ask_again(
        &mut self,
        slots: usize,
        now: Moment,
        elsewhere: impl Fn(&str) -> Elsewhere,
        actions: &mut Vec<(Box<str>, Action)>,
    ) {
        let Some(after) = self.limits.ask_again else {
            return;
        };
        let mut left = slots;
        for name in self.nodes.settled_for(after, slots, now) {
            if left == 0 || elsewhere(&name).taken {
                continue;
            }
            let action = self.nodes.change(&name, |node| {
                if node.kept.keeps(elsewhere(&name).others_pull, now) {
                    return None;
                }
                (left, self.changed) = (left - 1, true);
                isolate(&mut self.defects, &name, node, |node| {
                    node.ask_again(&self.images, &self.limits, now)
                })
            });
            actions.extend(action.flatten().map(|action| (name, action)));
        }
    }
}

/// Confines a panic to one node: what is open there fails, and the other nodes continue.
fn isolate(
    defects: &mut Vec<(Box<str>, String)>,
    name: &str,
    node: &mut NodeProgress,
    work: impl FnOnce(&mut NodeProgress) -> Option<Action>,
) -> Option<Action> {
    isolated(|| work(node)).unwrap_or_else(|defect| {
        node.break_off(&defect);
        defects.push((name.into(), defect));
        None
    })
}
