package compose

// The labels by which Compose knows its containers.
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
	labelConfigFiles  = "com.docker.compose.project.config_files"
	labelWorkingDir   = "com.docker.compose.project.working_dir"
)
