// Package aws tests hpad with the fake AWS of package awstest.
package aws
