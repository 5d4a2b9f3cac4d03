.PHONY: build packages image test test-unit soak bench scale lint fmt

# build builds hpad in bin/.
build:
	go build -o bin/ ./cmd/...

# packages builds .deb, .rpm and .tar.gz for amd64 and arm64 in dist/. build.sh describes
# the variables, for example "make packages ARCHITECTURES=amd64".
export ARCHITECTURES FORMATS VERSION
packages:
	packaging/build.sh

# image builds container images for "docker load" in dist/.
image:
	FORMATS=image.tar packaging/build.sh

# test installs the engines for the tests and runs all tests.
test:
	test/all.sh

# test-unit runs the tests that need no engine.
test-unit:
	test/all.sh unit

# soak runs the long form of tests, which takes hours.
soak:
	test/soak.sh

# bench runs all benchmarks.
bench:
	go test -run '^$$' -bench . -benchmem ./...

# scale measures hpad and nomad-autoscaler with simulated clusters in about 90 minutes.
# SCALE selects a part: make scale SCALE="-n 1000". It first tests the simulation.
scale:
	HPAD_SOAK=1 go test -count=1 ./test/scale
	go run ./test/scale $(or $(SCALE),-all)

# lint checks the code and fmt formats it, as configured in .golangci.yml.
lint:
	test/tools/golangci-lint.sh run

fmt:
	test/tools/golangci-lint.sh fmt
