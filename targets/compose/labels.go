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

// The labels that hpad adds to the containers it creates; Compose ignores them.
const (
	// labelSource contains the creation time, in Unix seconds, of the container that Compose
	// created with this configuration, or 0 if the configuration comes from the template.
	labelSource = "io.hpad.source-created"
	// labelBeside records which other containers existed when hpad created this one:
	// besideService if the service had any, besideProject if only the project had any,
	// otherwise "".
	labelBeside = "io.hpad.beside"
	// labelReplaces contains the ID of the container that this one replaces.
	labelReplaces = "io.hpad.replaces"
)

const (
	besideService = "service"
	besideProject = "project"
)
