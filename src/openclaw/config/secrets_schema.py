"""How `secret://` references are looked up."""

from typing import Literal

from pydantic import Field

from openclaw.config.fields import Milliseconds, NonEmptyText, Scalar, Section, Text, Texts


class GcpSecretsConfig(Section):
    """Google Cloud Secret Manager."""

    project: Text | None = None
    """The project of secrets whose reference names none."""
    endpoint: Text | None = None
    """Another address of the API."""


class AwsSecretsConfig(Section):
    """AWS Secrets Manager."""

    region: Text | None = None
    """The region; left out: as the AWS environment says."""
    profile: Text | None = None
    """A profile of the AWS configuration."""
    endpoint_url: Text | None = None
    """Another address of the API."""


class VaultAppRole(Section):
    """A login to Vault by AppRole."""

    role_id: Text
    """The role's id."""
    secret_id: Text = Field(repr=False)
    """The role's secret id; best a `secret://env/…` or `secret://file/…` reference."""
    mount: NonEmptyText = "approle"
    """Where the AppRole method is mounted."""


class VaultSecretsConfig(Section):
    """HashiCorp Vault or OpenBao."""

    address: Text | None = None
    """The server's address; left out: `VAULT_ADDR`."""
    namespace: Text | None = None
    """The namespace; left out: `VAULT_NAMESPACE`."""
    token: Text | None = Field(default=None, repr=False)
    """The token; best a `secret://env/…` or `secret://file/…` reference. Left out: `VAULT_TOKEN`, then `~/.vault-token`."""
    app_role: VaultAppRole | None = None
    """Log in by AppRole instead of a token."""
    mount: NonEmptyText = "secret"
    """Where the key-value engine is mounted."""
    kv_version: Literal[1, 2] | None = None
    """The key-value engine's version; left out: asked of the server."""
    ca_file: Text | None = None
    """A file with the certificate authority to trust."""


class ExecSecretConfig(Section):
    """A command whose output is the secret."""

    command: NonEmptyText
    """The program; it is started without a shell."""
    args: Texts = ()
    """The program's arguments."""
    env: dict[NonEmptyText, Scalar] = Field(default_factory=dict, repr=False)
    """Environment variables for the program, besides PATH, HOME and the like."""
    timeout_ms: Milliseconds | None = None
    """Milliseconds it may take; left out: `secrets.timeoutMs`."""


class AzureSecretsConfig(Section):
    """Azure Key Vault."""

    vault: Text | None = None
    """The key vault's name or address, for references that name none."""
    endpoint: Text | None = None
    """Another address of the API."""


class KeyringSecretsConfig(Section):
    """The desktop's keyring."""

    service: NonEmptyText = "openclaw"
    """The service of entries whose reference names none."""


class OnePasswordSecretsConfig(Section):
    """1Password, through its `op` command."""

    account: Text | None = None
    """The account, where there are several."""
    vault: Text | None = None
    """The vault of items whose reference names none."""


class FileSecretsConfig(Section):
    """Secrets in files."""

    directory: Text | None = None
    """Where `secret://file/./…` starts; left out: the state directory. Any other path is absolute or begins with `~/`."""


class SecretsConfig(Section):
    """How `secret://` references are looked up."""

    timeout_ms: Milliseconds = 10_000
    """Milliseconds that looking up one reference may take."""
    gcp: GcpSecretsConfig = GcpSecretsConfig()
    """Google Cloud Secret Manager, for `secret://gcp/…`."""
    aws: AwsSecretsConfig = AwsSecretsConfig()
    """AWS Secrets Manager, for `secret://aws/…`."""
    vault: VaultSecretsConfig = VaultSecretsConfig()
    """HashiCorp Vault, for `secret://vault/…`."""
    azure: AzureSecretsConfig = AzureSecretsConfig()
    """Azure Key Vault, for `secret://azure/…`."""
    keyring: KeyringSecretsConfig = KeyringSecretsConfig()
    """The desktop's keyring, for `secret://keyring/…`."""
    op: OnePasswordSecretsConfig = OnePasswordSecretsConfig()
    """1Password, for `secret://op/…`."""
    file: FileSecretsConfig = FileSecretsConfig()
    """Files, for `secret://file/…`."""
    exec: dict[NonEmptyText, ExecSecretConfig] = Field(default_factory=dict)
    """Commands by name, for `secret://exec/NAME`."""
