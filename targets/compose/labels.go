package compose

// The labels of Compose.
const (
	labelProject      = "com.docker.compose.project"
	labelService      = "com.docker.compose.service"
	labelNumber       = "com.docker.compose.container-number"
	labelHash         = "com.docker.compose.config-hash"
	labelImage        = "com.docker.compose.image"
	labelOneoff       = "com.docker.compose.oneoff"
	labelHook         = "com.docker.compose.hook"
	labelDependencies = "com.docker.compose.depends_on"
	labelReplace      = "com.docker.compose.replace"
)

// labelPodmanHash replaces labelHash in podman-compose.
const labelPodmanHash = "io.podman.compose.config-hash"

// The labels that hpad adds to the containers it creates; Compose ignores them.
const (
	// labelBeside is "true" if the project had other containers when hpad created this one,
	// otherwise "false".
	labelBeside = "io.hpad.beside"
	// labelReplaces contains the ID of the container that this one replaces.
	labelReplaces = "io.hpad.replaces"
)
