.PHONY: build packages image test test-unit soak bench scale lint fmt

# build puts hpad into bin/.
build:
	go build -o bin/ ./cmd/...

# packages makes .deb, .rpm and .tar.gz for amd64 and arm64 in dist/; build.sh says
# what can be chosen, as "make packages ARCHITECTURES=amd64".
export ARCHITECTURES FORMATS VERSION
packages:
	packaging/build.sh

# image makes container images for "docker load" in dist/.
image:
	FORMATS=image.tar packaging/build.sh

# test sets up the engines that the tests talk to and runs every test.
test:
	test/all.sh

# test-unit runs the tests outside of test/, which need no engine.
test-unit:
	test/all.sh unit

# soak runs the tests that have a long form in it, which takes hours.
soak:
	test/soak.sh

# bench runs every benchmark and reports time and allocations.
bench:
	go test -run '^$$' -bench . -benchmem ./...

# scale measures hpad over simulated clusters, and nomad-autoscaler beside it, which
# takes some 70 minutes; SCALE chooses a part, as make scale SCALE="-n 1000".
scale:
	go run ./test/scale $(or $(SCALE),-all)

# lint checks the code, fmt formats it; .golangci.yml says how.
lint:
	test/tools/golangci-lint.sh run

fmt:
	test/tools/golangci-lint.sh fmt
