//! The same image by another name.

/// The registry of names without one, and its other name.
const DOCKER: [&str; 2] = ["docker.io", "index.docker.io"];

/// True if `live` names the image that `want` does: with the default registry and tag left out or written out, or with the digest that
/// a resolving webhook adds to the same tag. A digest that `want` has cannot be left out or be another.
pub(crate) fn same_image(live: &str, want: &str) -> bool {
    let (live, want) = (Name::of(live), Name::of(want));
    let pinned = want.digest.is_none() || want.digest == live.digest;
    pinned && live.registry == want.registry && live.path == want.path && live.tag == want.tag
}

/// True if `live` is the same image with a digest that `want` does not have. What runs is what the digest says, so who wrote it matters.
pub(crate) fn is_pinned(live: &str, want: &str) -> bool {
    same_image(live, want) && Name::of(live).digest.is_some() && Name::of(want).digest.is_none()
}

#[derive(Debug)]
struct Name<'a> {
    registry: &'a str,
    path: String,
    /// None: a digest stands in its place.
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Name<'a> {
    fn of(text: &'a str) -> Self {
        let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
        // A colon before the last slash is a port's.
        let colon = name.rfind(':').filter(|colon| name.rfind('/').is_none_or(|slash| slash < *colon));
        let (name, tag) = colon.map_or((name, None), |at| (&name[..at], name.get(at + 1..)));
        let is_host = |part: &&str| part.contains(['.', ':']) || *part == "localhost";
        let (registry, path) = match name.split_once('/').filter(|(first, _)| is_host(first)) {
            Some((registry, path)) if !DOCKER.contains(&registry) => (registry, path.to_owned()),
            of_docker => {
                let path = of_docker.map_or(name, |(_, path)| path);
                (DOCKER[0], if path.contains('/') { path.to_owned() } else { format!("library/{path}") })
            }
        };
        Self { registry, path, tag: tag.or(digest.is_none().then_some("latest")), digest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_image() {
        for (live, want, same) in [
            ("registry.k8s.io/etcd:3.6.5", "registry.k8s.io/etcd:3.6.5", true),
            ("registry.k8s.io/etcd:3.6.5@sha256:ab", "registry.k8s.io/etcd:3.6.5", true),
            ("registry.k8s.io/etcd:3.6.5", "registry.k8s.io/etcd:3.6.5@sha256:ab", false),
            ("registry.k8s.io/etcd:3.6.5@sha256:cd", "registry.k8s.io/etcd:3.6.5@sha256:ab", false),
            ("registry.k8s.io/etcd:3.6.6@sha256:ab", "registry.k8s.io/etcd:3.6.5", false),
            ("registry.k8s.io/etcd@sha256:ab", "registry.k8s.io/etcd:3.6.5", false),
            ("registry.k8s.io/etcd@sha256:ab", "registry.k8s.io/etcd@sha256:ab", true),
            ("mirror.example.com/etcd:3.6.5", "registry.k8s.io/etcd:3.6.5", false),
            ("registry.k8s.io/x/etcd:3.6.5", "registry.k8s.io/etcd:3.6.5", false),
            ("docker.io/library/busybox:1", "busybox:1", true),
            ("index.docker.io/library/busybox:1", "docker.io/busybox:1", true),
            ("docker.io/berth/agent:1", "berth/agent:1", true),
            ("busybox:latest", "busybox", true),
            ("busybox", "docker.io/library/busybox:latest", true),
            ("busybox:1", "busybox", false),
            ("localhost:5000/agent:1", "agent:1", false),
            ("localhost:5000/agent", "localhost:5000/agent:latest", true),
            ("reg:5000/agent:1@sha256:ab", "reg:5000/agent:1", true),
            ("", "busybox", false),
        ] {
            assert_eq!(same_image(live, want), same, "{live} for {want}");
        }
    }
}
