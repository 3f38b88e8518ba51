//! The rights that swaplet uses, each by what is not done without it: the one table. A test
//! compares it with the roles of `deploy/`, and `docs/rights.md` explains those.

/// Makes the enum and all that is known of its values from one table.
macro_rules! rights {
    ($($name:ident: $role:literal, $verb:literal $group:literal $resource:literal, $without:literal;)+) => {
        /// A right, by what it is for: several may need the same verb on the same resource.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Right {
            $(#[doc = concat!("Without it: ", $without, ".")] $name,)+
        }

        impl Right {
            /// Every right, in the order of the enum.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Returns what is not done without it, for the log and `/readyz`.
            pub const fn without(self) -> &'static str {
                match self {
                    $(Self::$name => $without,)+
                }
            }

            /// Returns the role of `deploy/` that gives it (empty: none does), the verb, the API group (empty: the
            /// core group) and the resource in the plural, with its subresource.
            pub const fn rule(self) -> [&'static str; 4] {
                match self {
                    $(Self::$name => [$role, $verb, $group, $resource],)+
                }
            }
        }
    };
}

rights! {
    // Of the base of all loops.
    SendEvents: "swaplet", "create" "" "events", "Events cannot be sent";
    ReadLeash: "swaplet-restart-leash", "get" "admissionregistration.k8s.io"
        "validatingadmissionpolicybindings", "containers are not restarted";

    // To end sidecars.
    ChangeImages: "swaplet", "patch" "" "pods", "images of pods cannot be changed";
    WritePhases: "swaplet", "patch" "" "pods/status", "phases of pods cannot be written";
    WatchPolicies: "swaplet-sidecar-policies", "watch" "swaplet.io" "sidecarpolicies",
        "SidecarPolicies cannot be watched";
    WatchPoliciesOfNamespace: "swaplet-namespaced-sidecar-policies", "watch" "swaplet.io"
        "namespacedsidecarpolicies",
        "NamespacedSidecarPolicies of a namespace cannot be watched, so they end nothing there";
    WatchLabels: "swaplet-sidecar-policies", "watch" "" "namespaces",
        "labels of namespaces cannot be watched, which SidecarPolicies with a namespaceSelector need";
    ReportPolicies: "swaplet-sidecar-policies", "patch" "swaplet.io" "sidecarpolicies/status",
        "the status of SidecarPolicies cannot be written";

    // To know nodes, and OpenKruise.
    WatchNodes: "swaplet-nodes", "watch" "" "nodes", "changes of nodes are observed late";
    KeepVerdicts: "swaplet-state", "patch" "" "configmaps",
        "what is proved on nodes cannot be kept in a ConfigMap";
    CreateRecreateRequests: "swaplet-requests", "create" "apps.kruise.io"
        "containerrecreaterequests", "ContainerRecreateRequests for OpenKruise's daemon cannot be created";
    FollowRecreateRequests: "swaplet-requests", "watch" "apps.kruise.io"
        "containerrecreaterequests", "requests to OpenKruise's daemon cannot be watched";
    WatchDaemons: "swaplet-openkruise", "watch" "" "pods",
        "each node may have OpenKruise's daemon, as its pods cannot be watched: requests, and pods on which its SidecarTerminator acts, are left to it";
    ListManagers: "swaplet-openkruise", "list" "apps" "deployments",
        "it cannot be read whether OpenKruise's SidecarTerminator is on";
    ReadWebhooks: "swaplet-openkruise", "get" "admissionregistration.k8s.io"
        "mutatingwebhookconfigurations", "it cannot be read whether OpenKruise's manager is installed";
    ReadLeaseOfManager: "swaplet-openkruise", "get" "coordination.k8s.io" "leases",
        "it cannot be read whether OpenKruise's manager is running";

    // To restart containers.
    WatchRequests: "swaplet-restart", "watch" "apps.kruise.io" "containerrecreaterequests",
        "restart requests cannot be watched";
    AcceptRequests: "swaplet-restart", "patch" "apps.kruise.io" "containerrecreaterequests",
        "restart requests cannot be accepted";
    ReportRequests: "swaplet-restart", "patch" "apps.kruise.io" "containerrecreaterequests/status",
        "the progress of restart requests cannot be written";
    DeleteRequests: "swaplet-restart", "delete" "apps.kruise.io" "containerrecreaterequests",
        "restart requests cannot be deleted when they expire";
    SetUnready: "swaplet-restart", "patch" "" "pods/status",
        "pods cannot be made not ready before their containers are restarted";
    WatchGatedPods: "swaplet", "watch" "" "pods",
        "new pods with the readiness gate KruisePodReady stay not Ready, because pods cannot be watched";
    OpenReadinessGates: "swaplet-restart", "patch" "" "pods/status",
        "new pods with the readiness gate KruisePodReady stay not Ready, because their status cannot be written";

    // To restart containers when their configuration changes.
    WatchConfiguredPods: "swaplet", "watch" "" "pods",
        "pods that request restarts when objects change cannot be watched";
    WatchConfigMaps: "swaplet-restart-on", "watch" "" "configmaps",
        "nothing is restarted when a ConfigMap changes, because it cannot be watched";
    WatchSecrets: "swaplet-restart-on-secrets", "watch" "" "secrets",
        "nothing is restarted when a Secret changes, because it cannot be watched";
    WatchOwnRequests: "swaplet-restart", "watch" "apps.kruise.io" "containerrecreaterequests",
        "requests that were created because an object has changed cannot be watched";
    ReadOwnRequests: "swaplet-restart-on", "get" "apps.kruise.io" "containerrecreaterequests",
        "containers are restarted late for changed configuration, because existing requests cannot be read";
    CreateRequests: "swaplet-restart-on", "create" "apps.kruise.io" "containerrecreaterequests",
        "nothing is restarted for changed configuration, because restarts cannot be requested";
    ListBudgets: "swaplet-restart-on", "list" "policy" "poddisruptionbudgets",
        "nothing is restarted for changed configuration, because PodDisruptionBudgets cannot be listed";
    ReadRecords: "swaplet-state", "get" "" "configmaps",
        "nothing is restarted for changed configuration, because the records of what containers have observed cannot be read";
    WriteRecords: "swaplet-state", "patch" "" "configmaps",
        "nothing is restarted for changed configuration, because what containers have observed cannot be recorded";

    // To upgrade sidecars without a gap.
    WatchSidecarSets: "swaplet-hot-upgrade", "watch" "apps.kruise.io" "sidecarsets",
        "no sidecar is hot-upgraded, because SidecarSets cannot be watched";
    ReportSidecarSets: "swaplet-hot-upgrade", "patch" "apps.kruise.io" "sidecarsets/status",
        "the statuses of SidecarSets are old, because they cannot be written";
    WatchUpgradedPods: "swaplet", "watch" "" "pods",
        "no sidecar is hot-upgraded, because pods cannot be watched";
    UpgradeSidecars: "swaplet", "patch" "" "pods",
        "no sidecar is hot-upgraded, because pods cannot be changed";

    // To pull images for jobs.
    WatchPullJobs: "swaplet-pull-jobs", "watch" "apps.kruise.io" "imagepulljobs",
        "no image is pulled for ImagePullJobs, because they cannot be watched";
    WatchListPullJobs: "swaplet-pull-jobs", "watch" "apps.kruise.io" "imagelistpulljobs",
        "no image is pulled for ImageListPullJobs, because they cannot be watched";
    ReportPullJobs: "swaplet-pull-jobs", "patch" "apps.kruise.io" "imagepulljobs/status",
        "the status of ImagePullJobs cannot be written";
    ReportListPullJobs: "swaplet-pull-jobs", "patch" "apps.kruise.io" "imagelistpulljobs/status",
        "the status of ImageListPullJobs cannot be written";
    DeletePullJobs: "swaplet-pull-jobs", "delete" "apps.kruise.io" "imagepulljobs",
        "ImagePullJobs cannot be deleted when they expire";
    DeleteListPullJobs: "swaplet-pull-jobs", "delete" "apps.kruise.io" "imagelistpulljobs",
        "ImageListPullJobs cannot be deleted when they expire";
    ReleasePullJobs: "swaplet-pull-jobs", "patch" "apps.kruise.io" "imagepulljobs",
        "jobs that are being deleted stay, because OpenKruise's finalizer cannot be removed from them";
    WatchNodesOfJobs: "swaplet-warm-nodes", "watch" "" "nodes",
        "no image is pulled for jobs, because nodes cannot be watched";
    WatchWarmerPods: "swaplet-warm", "watch" "" "pods",
        "no image is pulled for jobs, because warmer pods cannot be watched";
    CreateWarmerPods: "swaplet-warm", "create" "" "pods", "warmer pods cannot be created";
    ChangeWarmerPods: "swaplet-warm", "patch" "" "pods",
        "images of warmer pods cannot be changed";
    DeleteWarmerPods: "swaplet-warm", "delete" "" "pods", "warmer pods cannot be deleted";
    WatchPulls: "swaplet-warm", "watch" "" "events",
        "pull times and image sizes are not reported, because Events cannot be watched";
    WatchImageWaits: "swaplet", "watch" "" "pods",
        "jobs pull images also while pods wait for theirs, because pods cannot be watched";
    WatchSelectedPods: "swaplet", "watch" "" "pods",
        "no image is pulled for jobs with a podSelector, because pods cannot be watched";
    WatchImageCaches: "swaplet-warm-image-caches", "watch" "eci.alibabacloud.com" "imagecaches",
        "no ImageCache is created for virtual nodes, because ImageCaches cannot be watched";
    CreateImageCaches: "swaplet-warm-image-caches", "create" "eci.alibabacloud.com" "imagecaches",
        "ImageCaches for virtual nodes cannot be created";
    RemoveStartupTaint: "swaplet-warm-startup-taint", "patch" "" "nodes",
        "nodes keep the taint swaplet.io/warming";

    // To pull new images of workloads beforehand.
    WatchDeployments: "swaplet-predownload", "watch" "apps" "deployments",
        "images of Deployments are not pre-downloaded, because they cannot be watched";
    WatchStatefulSets: "swaplet-predownload", "watch" "apps" "statefulsets",
        "images of StatefulSets are not pre-downloaded, because they cannot be watched";
    WatchCloneSets: "swaplet-predownload", "watch" "apps.kruise.io" "clonesets",
        "images of CloneSets are not pre-downloaded, because they cannot be watched";
    ListPodsOfWorkloads: "swaplet", "list" "" "pods",
        "images are not pre-downloaded, because pods cannot be listed";
    ListPullJobs: "swaplet-predownload", "list" "apps.kruise.io" "imagepulljobs",
        "images are not pre-downloaded, because ImagePullJobs cannot be listed";
    CreatePullJobs: "swaplet-predownload", "create" "apps.kruise.io" "imagepulljobs",
        "images are not pre-downloaded, because ImagePullJobs cannot be created";
    DeleteOwnPullJobs: "swaplet-predownload", "delete" "apps.kruise.io" "imagepulljobs",
        "ImagePullJobs of pre-downloads cannot be deleted";

    // To count what is in protected Namespaces and CRDs.
    WatchProtectedNamespaces: "swaplet-protect", "watch" "" "namespaces",
        "protected Namespaces are not counted, because Namespaces cannot be watched";
    WatchProtectedCrds: "swaplet-protect", "watch" "apiextensions.k8s.io"
        "customresourcedefinitions",
        "protected CRDs are not counted, because CustomResourceDefinitions cannot be watched";
    CountInNamespaces: "swaplet-protect", "patch" "" "namespaces",
        "protected Namespaces stay, because no count can be written to them";
    CountInCrds: "swaplet-protect", "patch" "apiextensions.k8s.io" "customresourcedefinitions",
        "protected CRDs stay, because no count can be written to them";
    WatchPodsOfNamespaces: "swaplet-protect", "watch" "" "pods",
        "protected Namespaces stay, because their pods cannot be watched";
    // A role of deploy/ cannot give it: which CRDs are protected is the administrator's choice.
    WatchObjectsOfCrds: "", "watch" "" "",
        "protected CRDs stay, because their objects cannot be watched";
    WatchClaims: "swaplet-protect", "watch" "" "persistentvolumeclaims",
        "protected Namespaces stay, because their PersistentVolumeClaims cannot be watched";
}
