.PHONY: build test bench lint fmt

# build puts hpad into bin/.
build:
	go build -o bin/ ./cmd/...

# test sets up the engines that the tests talk to and runs every test.
test:
	test/all.sh

# bench runs every benchmark and reports time and allocations.
bench:
	go test -run '^$$' -bench . -benchmem ./...

# lint checks the code, fmt formats it; .golangci.yml says how.
lint:
	"$$(test/tools/golangci-lint.sh)" run

fmt:
	"$$(test/tools/golangci-lint.sh)" fmt
