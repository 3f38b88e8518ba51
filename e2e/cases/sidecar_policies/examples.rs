//! `docs/examples` on a real kubelet. The demo runs them each day too (tests/demo/manifests.rs).

/// What differs here: the namespace, images that the cluster has, a schedule that begins at once, and an
/// owner that exists.
mod long {
    use std::path::Path;

    use k8s_openapi::api::batch::v1::{CronJob, Job};
    use kube::api::{DeleteParams, DynamicObject, PostParams};
    use kube::discovery::ApiResource;
    use kube::{Api, ResourceExt as _};
    use serde_json::{Value, json};

    use crate::controller::Controller;
    use crate::of_cluster::OfCluster;
    use crate::pods::EXITS_143;
    use crate::sidecar_policies::injected::inject;
    use crate::sidecar_policies::{crds_are_there, of_namespace};
    use crate::world::{World, eventually};

    impl World {
        fn example(&self, file: &str) -> Vec<Value> {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples");
            let text = std::fs::read_to_string(folder.join(format!("{file}.yaml"))).unwrap();
            let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            for object in &mut objects {
                object["metadata"]["namespace"] = json!(self.namespace);
                self.with_own_images(object);
            }
            objects
        }

        fn with_own_images(&self, object: &mut Value) {
            let places = [
                "/spec/containers",
                "/spec/template/spec/containers",
                "/spec/jobTemplate/spec/template/spec/containers",
            ];
            for place in places {
                let containers = object.pointer_mut(place).and_then(Value::as_array_mut);
                for container in containers.into_iter().flatten() {
                    container["image"] = json!(self.images.work);
                    if container["command"].is_null() {
                        container["args"] = json!([EXITS_143]);
                    }
                }
            }
        }

        async fn create_example(&self, mut object: Value) -> Option<OfCluster> {
            match object["kind"].as_str().unwrap() {
                "NamespacedSidecarPolicy" => {
                    self.create_dynamic(&of_namespace(), object).await;
                }
                "SidecarPolicy" => {
                    let sidecars = object["spec"]["sidecars"].take();
                    return Some(self.cluster_policy(sidecars).await);
                }
                "CronJob" => {
                    object["spec"]["schedule"] = json!("* * * * *");
                    let cron: CronJob = serde_json::from_value(object).unwrap();
                    let params = PostParams::default();
                    self.api().create(&params, &cron).await.unwrap();
                }
                "Job" => self.create_job(object).await,
                _ => {
                    if object["metadata"]["ownerReferences"].is_array() {
                        object["metadata"]["ownerReferences"][0] = self.owner().await;
                    }
                    self.create_pod(object).await;
                }
            }
            None
        }

        async fn create_dynamic(&self, resource: &ApiResource, object: Value) {
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            Api::<DynamicObject>::namespaced_with(self.client.clone(), &self.namespace, resource)
                .create(&PostParams::default(), &object)
                .await
                .unwrap();
        }

        /// An object of the kind that owns the pod, which is not of swaplet's.
        async fn owner(&self) -> Value {
            let resource = ApiResource {
                group: "argoproj.io".to_owned(),
                version: "v1alpha1".to_owned(),
                api_version: "argoproj.io/v1alpha1".to_owned(),
                kind: "Workflow".to_owned(),
                plural: "workflows".to_owned(),
            };
            let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
            let version =
                json!({"name": "v1alpha1", "served": true, "storage": true, "schema": schema});
            let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "workflows.argoproj.io"}, "spec": {"group": "argoproj.io", "scope": "Namespaced",
                    "names": {"kind": "Workflow", "plural": "workflows"}, "versions": [version]}});
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("crd.json");
            std::fs::write(&file, crd.to_string()).unwrap();
            crate::world::apply(&file).await;
            let flow = DynamicObject::new("flow", &resource);
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
            let flow = eventually("the kind of the owner to be served", || async {
                api.create(&PostParams::default(), &flow).await.ok()
            })
            .await;
            json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "flow", "uid": flow.uid().unwrap(), "controller": true})
        }
    }

    #[tokio::test]
    async fn the_examples_of_policies_end() {
        crds_are_there().await;
        let world = World::new("policies-examples").await;
        let _injects = inject(&world).await;
        let mut of_cluster = Vec::new();
        let _controller = Controller::start_with(&world, &["--sidecar-policies"]).await;
        for file in [
            "cronjob-collector",
            "job-injected-proxy",
            "indexed-job",
            "bare-pod",
            "custom-owner",
        ] {
            for object in world.example(file) {
                of_cluster.extend(world.create_example(object).await);
            }
        }
        world.job_ends("import", "Complete").await;
        world.job_ends("train", "Complete").await;
        world.pod_ends("migrate", "Succeeded").await;
        world.pod_ends("flow-main-1234", "Succeeded").await;
        let jobs: Api<Job> = world.api();
        eventually("the Job of the CronJob to complete", || async {
            let jobs = jobs.list(&Default::default()).await.unwrap();
            let is_done = |job: &Job| {
                let succeeded = job.status.as_ref().and_then(|status| status.succeeded);
                job.name_any().starts_with("report-") && succeeded == Some(1)
            };
            jobs.iter().any(is_done).then_some(())
        })
        .await;
        let crons: Api<CronJob> = world.api();
        let _ = crons.delete("report", &DeleteParams::background()).await;
        world.done().await;
    }
}
